// LocalTime: reading, the clock, and strftime as glibc does it in the C locale.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>

#include "core/error.h"
#include "llm/template/runtime.h"
#include "llm/template/text.h"

namespace ullage::llm {
namespace {

constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

bool IsLeap(int year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int DaysInMonth(int year, int month) {
  constexpr int kDaysIn[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeap(year) ? 29 : kDaysIn[month - 1];
}

/// 0 is January 1st.
int DayOfYear(const LocalTime& t) {
  int day = t.day - 1;
  for (int m = 1; m < t.month; ++m) day += DaysInMonth(t.year, m);
  return day;
}

/// 0 is Sunday.
int Weekday(const LocalTime& t) {
  const int y = t.year - 1;
  return (y * 365 + y / 4 - y / 100 + y / 400 + DayOfYear(t) + 1) % 7;
}

/// ISO 8601 week and the year it belongs to.
std::pair<int, int> IsoWeek(const LocalTime& t) {
  const int weekday = (Weekday(t) + 6) % 7;  // 0 is Monday
  const auto weeks_in = [](int year) {
    LocalTime first;
    first.year = year;
    const int w = Weekday(first);
    return w == 4 || (w == 3 && IsLeap(year)) ? 53 : 52;
  };
  const int week = (DayOfYear(t) - weekday + 10) / 7;
  if (week < 1) return {t.year - 1, weeks_in(t.year - 1)};
  if (week > weeks_in(t.year)) return {t.year + 1, 1};
  return {t.year, week};
}

/// Formats one directive at a time.
class TimeFormatter {
 public:
  TimeFormatter(const LocalTime& t, std::string_view format) : t_(t), f_(format) {}

  std::string Run() {
    while (i_ < f_.size()) {
      if (f_[i_] != '%') {
        out_ += f_[i_++];
      } else {
        Directive();
      }
    }
    return std::move(out_);
  }

 private:
  void Directive() {
    const size_t begin = i_++;
    pad_ = 0;
    upper_ = swap_ = false;
    for (; i_ < f_.size(); ++i_) {
      const char c = f_[i_];
      if (c == '_' || c == '-' || c == '0') {
        pad_ = c;
      } else if (c == '^') {
        upper_ = true;
      } else if (c == '#') {
        swap_ = true;
      } else {
        break;
      }
    }
    width_ = -1;
    while (i_ < f_.size() && f_[i_] >= '0' && f_[i_] <= '9') {
      width_ = std::min((width_ < 0 ? 0 : width_) * 10 + (f_[i_++] - '0'), 4096);
    }
    if (i_ < f_.size() && (f_[i_] == 'E' || f_[i_] == 'O')) ++i_;
    if (i_ >= f_.size()) {
      out_ += f_.substr(begin);
      return;
    }
    const char directive = f_[i_++];
    if (!Number(directive) && !Word(directive)) {
      jinja::Unsupported("the strftime directive ", f_.substr(begin, i_ - begin), " is not supported");
    }
  }

  void Put(std::string text, int width, char pad) {
    if (upper_) text = jinja::ToUpper(text);
    if (width_ >= 0) width = width_;
    if (pad_ == '-') width = width_;
    if (pad_ == '_') pad = ' ';
    if (pad_ == '0') pad = '0';
    const auto size = static_cast<int>(text.size());
    if (width > size) out_.append(static_cast<size_t>(width - size), pad);
    out_ += text;
  }
  void PutNumber(int n, int width, char pad = '0') { Put(std::to_string(n), width, pad); }
  void PutWord(std::string_view word) {
    std::string text(word);
    if (swap_) text = jinja::ToUpper(text);
    Put(std::move(text), 0, ' ');
  }
  void PutFormat(std::string_view format) { Put(TimeFormatter(t_, format).Run(), 0, ' '); }

  int Hour12() const { return t_.hour % 12 == 0 ? 12 : t_.hour % 12; }

  bool Number(char directive) {
    const int weekday = Weekday(t_);
    switch (directive) {
      case 'd':
        PutNumber(t_.day, 2);
        return true;
      case 'e':
        PutNumber(t_.day, 2, ' ');
        return true;
      case 'm':
        PutNumber(t_.month, 2);
        return true;
      case 'Y':
        PutNumber(t_.year, 0);
        return true;
      case 'y':
        PutNumber(t_.year % 100, 2);
        return true;
      case 'C':
        PutNumber(t_.year / 100, 2);
        return true;
      case 'H':
        PutNumber(t_.hour, 2);
        return true;
      case 'k':
        PutNumber(t_.hour, 2, ' ');
        return true;
      case 'I':
        PutNumber(Hour12(), 2);
        return true;
      case 'l':
        PutNumber(Hour12(), 2, ' ');
        return true;
      case 'M':
        PutNumber(t_.minute, 2);
        return true;
      case 'S':
        PutNumber(t_.second, 2);
        return true;
      case 'f':
        out_ += std::to_string(1000000 + t_.microsecond).substr(1);
        return true;
      case 'j':
        PutNumber(DayOfYear(t_) + 1, 3);
        return true;
      case 'w':
        PutNumber(weekday, 1);
        return true;
      case 'u':
        PutNumber(weekday == 0 ? 7 : weekday, 1);
        return true;
      case 'U':
        PutNumber((DayOfYear(t_) + 7 - weekday) / 7, 2);
        return true;
      case 'W':
        PutNumber((DayOfYear(t_) + 7 - (weekday + 6) % 7) / 7, 2);
        return true;
      case 'V':
        PutNumber(IsoWeek(t_).second, 2);
        return true;
      case 'G':
        PutNumber(IsoWeek(t_).first, 0);
        return true;
      case 'g':
        PutNumber(IsoWeek(t_).first % 100, 2);
        return true;
      default:
        return false;
    }
  }

  bool Word(char directive) {
    switch (directive) {
      case 'a':
        PutWord(std::string_view(kDays[Weekday(t_)]).substr(0, 3));
        return true;
      case 'A':
        PutWord(kDays[Weekday(t_)]);
        return true;
      case 'b':
      case 'h':
        PutWord(std::string_view(kMonths[t_.month - 1]).substr(0, 3));
        return true;
      case 'B':
        PutWord(kMonths[t_.month - 1]);
        return true;
      case 'p': {
        const bool lower = swap_;
        swap_ = false;
        PutWord(t_.hour < 12 ? (lower ? "am" : "AM") : (lower ? "pm" : "PM"));
        return true;
      }
      case 'P':
        PutWord(t_.hour < 12 ? "am" : "pm");
        return true;
      case 'D':
      case 'x':
        PutFormat("%m/%d/%y");
        return true;
      case 'F':
        PutFormat("%Y-%m-%d");
        return true;
      case 'T':
      case 'X':
        PutFormat("%H:%M:%S");
        return true;
      case 'R':
        PutFormat("%H:%M");
        return true;
      case 'r':
        PutFormat("%I:%M:%S %p");
        return true;
      case 'c':
        PutFormat("%a %b %e %H:%M:%S %Y");
        return true;
      case 'n':
        PutWord("\n");
        return true;
      case 't':
        PutWord("\t");
        return true;
      case '%':
        PutWord("%");
        return true;
      case 'z':
      case 'Z':
        return true;  // a time without a zone
      default:
        return false;
    }
  }

  const LocalTime& t_;
  std::string_view f_;
  size_t i_ = 0;
  std::string out_;
  char pad_ = 0;
  bool upper_ = false, swap_ = false;
  int width_ = -1;
};

}  // namespace

LocalTime LocalTime::Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm tm{};
  localtime_r(&seconds, &tm);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  return {tm.tm_year + 1900,       tm.tm_mon + 1,           tm.tm_mday, tm.tm_hour, tm.tm_min,
          std::min(tm.tm_sec, 59), static_cast<int>(micros)};
}

LocalTime LocalTime::Parse(std::string_view iso) {
  size_t i = 0;
  const auto fail = [&]() {
    Throw(Code::kInvalidInput, "not an ISO 8601 date and time (like 2026-01-05T08:07:09): \"", iso, "\"");
  };
  const auto number = [&](int digits) {
    int n = 0;
    for (int k = 0; k < digits; ++k, ++i) {
      if (i >= iso.size() || iso[i] < '0' || iso[i] > '9') fail();
      n = n * 10 + (iso[i] - '0');
    }
    return n;
  };
  const auto expect = [&](std::string_view any) {
    if (i >= iso.size() || any.find(iso[i]) == std::string_view::npos) fail();
    ++i;
  };
  LocalTime t;
  t.year = number(4);
  expect("-");
  t.month = number(2);
  expect("-");
  t.day = number(2);
  if (i < iso.size()) {
    expect("T ");
    t.hour = number(2);
    expect(":");
    t.minute = number(2);
    if (i < iso.size()) {
      expect(":");
      t.second = number(2);
    }
    if (i < iso.size()) {
      expect(".,");
      int scale = 100000;
      for (; i < iso.size() && iso[i] >= '0' && iso[i] <= '9'; ++i, scale /= 10)
        t.microsecond += scale * (iso[i] - '0');
    }
  }
  if (i != iso.size() || t.year < 1 || t.month < 1 || t.month > 12 || t.day < 1 ||
      t.day > DaysInMonth(t.year, t.month) || t.hour > 23 || t.minute > 59 || t.second > 59) {
    fail();
  }
  return t;
}

namespace jinja {

std::string FormatTime(const LocalTime& time, std::string_view format) {
  return TimeFormatter(time, format).Run();
}

}  // namespace jinja

}  // namespace ullage::llm
