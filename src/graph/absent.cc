#include "graph/absent.h"

#include "core/error.h"

namespace ullage::graph {

std::shared_ptr<Constant> MakeAbsent(DType dtype, const Shape& shape, std::string why) {
  auto c = std::make_shared<Constant>();
  c->dtype = dtype;
  c->shape = shape;
  c->size_bytes = BytesOf(dtype, shape.elements());
  c->absent = std::move(why);
  c->owner = std::make_shared<char>();
  return c;
}

std::string DataKey(const Constant& c) {
  if (!c.file.empty()) return StrCat(c.file, "@", c.file_offset, "+", c.size_bytes);
  return StrCat(c.bytes ? static_cast<const void*>(c.bytes) : c.owner.get());
}

}  // namespace ullage::graph
