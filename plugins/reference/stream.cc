#include <chrono>

#include "reference/device.h"
#include "sdk/shared_source.h"

namespace ullage::reference {

using plugin::Failure;

namespace {

constexpr size_t kRing = 64;

/// The exception that is being handled.
std::shared_ptr<Fault> CaughtFault() {
  auto fault = std::make_shared<Fault>();
  try {
    throw;
  } catch (const Failure& e) {
    fault->code = e.code();
    fault->text = e.what();
  } catch (const plugin::HostFailure& e) {
    plugin::Host().release_status(e.status);
    fault->text = "the host refused what the kernel asked for";
  } catch (const std::exception& e) {
    fault->code = plugin::CodeOf(e);
    fault->text = e.what();
  } catch (...) {
    fault->text = "unknown failure";
  }
  return fault;
}

/// Throws what failed, once.
void Report(const std::shared_ptr<Fault>& fault) {
  if (fault && !fault->reported.exchange(true)) throw Failure(fault->code, fault->text);
}

}  // namespace

Stream::Stream(Device& device) : device_(device), random_(reinterpret_cast<uintptr_t>(this) | 1) {
  for (size_t i = 0; i < kRing; ++i) ring_.push_back(std::make_unique<Command>(team_));
  thread_ = std::thread([this] { Work(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Stream::Command& Stream::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return put_ - done_ < kRing; });
  return *ring_[put_ % kRing];
}

void Stream::Put() {
  {
    const std::lock_guard lock(mutex_);
    ++put_;
  }
  changed_.notify_all();
}

void Stream::AwaitAll() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == put_; });
}

void Stream::ReportFault() {
  std::shared_ptr<Fault> fault;
  {
    const std::lock_guard lock(mutex_);
    fault = fault_;
  }
  Report(fault);
}

void Stream::Finish() {
  AwaitAll();  // first: after a failure, too, the caller's memory is free
  device_.faults().Call("finish");
  ReportFault();
}

void Stream::Copy(const ullage_copy* copies, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const ullage_copy* copy = ULLAGE_AT(const ullage_copy, copies, i);
    Command& command = Next();
    command.kind = Command::kCopy;
    command.target = Bytes(copy->target);
    command.source = Bytes(copy->source);
    command.bytes = copy->source.bytes;
    Put();
  }
}

void Stream::Pack(kernels::Kernel& kernel, int index, std::byte* target, uint64_t bytes) {
  Command& command = Next();
  command.kind = Command::kPack;
  command.packs = &kernel;
  command.block = index;
  command.target = target;
  command.bytes = bytes;
  Put();
}

void Stream::Record(const std::shared_ptr<Point>& point, uint64_t ticket) {
  Command& command = Next();
  command.kind = Command::kRecord;
  command.point = point;
  command.ticket = ticket;
  Put();
}

void Stream::Wait(Event& event) {
  device_.faults().Call("stream_wait");
  Command& command = Next();
  command.kind = Command::kWait;
  command.point = event.point();
  command.ticket = event.ticket();
  Put();
}

void Stream::Compute(const kernels::Kernel& kernel, const std::function<void(plugin::SharedCall&)>& fill,
                     bool waits) {
  device_.faults().Call("compute");
  Command& command = Next();
  command.kind = Command::kCompute;
  command.kernel = &kernel;
  fill(command.call);
  Put();
  if (!waits) return;
  AwaitAll();
  ReportFault();
}

void Stream::Work() {
  for (;;) {
    Command* command;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ending_ || put_ != done_; });
      if (put_ == done_) return;
      command = ring_[done_ % kRing].get();
    }
    if (const uint64_t most = device_.settings().jitter_us; most > 0) {
      random_ ^= random_ << 13;
      random_ ^= random_ >> 7;
      random_ ^= random_ << 17;
      std::this_thread::sleep_for(std::chrono::microseconds(random_ % (most + 1)));
    }
    Do(*command);
    command->point.reset();
    {
      const std::lock_guard lock(mutex_);
      ++done_;
    }
    changed_.notify_all();
  }
}

void Stream::Do(Command& command) {
  std::shared_ptr<Fault> fault;
  try {
    switch (command.kind) {
      case Command::kCompute: {
        const auto turn = device_.Turn();
        if (!broken()) command.kernel->Compute(command.call);
        break;
      }
      case Command::kCopy: {
        const auto turn = device_.Turn();
        if (!broken()) device_.Transfer(command.target, command.source, command.bytes);
        break;
      }
      case Command::kPack: {
        const auto turn = device_.Turn();
        if (broken()) break;
        command.packs->Prepack(command.block, command.target, team_);
        device_.Link(command.bytes);
        break;
      }
      case Command::kRecord: {
        Point& point = *command.point;
        const std::lock_guard lock(point.mutex);
        point.done = command.ticket;
        point.fault = broken() ? fault_ : nullptr;
        point.changed.notify_all();
        break;
      }
      case Command::kWait: {
        Point& point = *command.point;
        std::unique_lock lock(point.mutex);
        point.changed.wait(lock, [&] { return point.done >= command.ticket; });
        // Work that needs what another queue failed to make is passed over, too.
        if (!broken() && point.fault && !point.fault->reported) fault = point.fault;
        break;
      }
    }
  } catch (...) {
    fault = CaughtFault();
  }
  if (!fault) return;
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void Event::Record(Stream& stream) {
  device_.faults().Call("record");
  uint64_t ticket;
  {
    const std::lock_guard lock(point_->mutex);
    ticket = ++point_->wanted;
  }
  stream.Record(point_, ticket);
}

uint64_t Event::ticket() {
  const std::lock_guard lock(point_->mutex);
  return point_->wanted;
}

void Event::Wait() {
  device_.faults().Call("host_wait");
  std::unique_lock lock(point_->mutex);
  const uint64_t ticket = point_->wanted;
  point_->changed.wait(lock, [&] { return point_->done >= ticket; });
  Report(point_->fault);
}

}  // namespace ullage::reference
