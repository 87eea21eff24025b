-- Reads one packet by its layout into the tree, and returns its values.

local M = {}

local RAW_ADDR, RMA_IOV, MAX_IOV = 32, 24, 4
local CONNID_HDR = 0x8000
local NO_OP_ID = 0xffffffff

-- has reports whether the one bit of mask is set.
local function has(flags, mask) return flags % (2 * mask) >= mask end

-- hex gives a 64-bit number like "%#x".
local function hex(n)
  return "0x" .. (n:tohex():gsub("^0+(%x)", "%1"))
end

local in_hex = { tag = true, cq_data = true, connid = true, host_id = true, extra_info = true, device_version = true }
-- The fields that the summary of a packet leaves out, and those that come last in it.
local quiet = { rma_iov_count = true, read_iov_count = true, nextra_p3 = true, ["raw_addr.size"] = true }
local late = { connid = true, len = true }

-- integer makes whole numbers look so in Lua 5.4, too.
local function integer(n) return math.tointeger and math.tointeger(n) or n end

-- A reader has the buffer, the tree and the fields, and as at how far it got. Its
-- methods give nil if the packet ends before what they want; p.malformed says so then,
-- or p.cut if the packet was only captured in part.
local Reader = {}
Reader.__index = Reader

function Reader:fail(why)
  self.p.malformed = self.p.malformed or why
end

function Reader:take(name, size)
  if self.at + size > self.total then
    return self:fail(name .. " is missing: the packet is too short")
  elseif self.at + size > self.captured then
    self.p.cut = true
    return nil
  end
  local range = self.tvb(self.at, size)
  self.at = self.at + size
  return range
end

function Reader:word(name, value, names)
  if names then
    value = names[value] or value
  end
  table.insert(late[name] and self.p.late or self.p.words, string.format("%s=%s", name, value))
end

-- number reads a field by its name.
function Reader:number(name, size)
  local range = self:take(name, size)
  if not range then return nil end
  local p, text = self.p, nil
  self.tree:add_le(self.F[name], range)
  if size == 8 then
    local big = range:le_uint64()
    p[name], text = integer(big:tonumber()), in_hex[name] and hex(big) or tostring(big)
  else
    p[name] = range:le_uint()
    text = in_hex[name] and string.format("0x%x", p[name]) or p[name]
  end
  if not quiet[name] and not (name == "op_id" and p[name] == NO_OP_ID and p.size == 24) then
    self:word(name, text, self.names[name])
  end
  return range
end

function Reader:bytes(name, size)
  local range = self:take(name, size)
  if range then self.tree:add(self.F[name], range) end
  return range
end

-- fields reads what a layout describes.
function Reader:fields(layout)
  for name, size in layout:gmatch("([%w_.]+):(%d+)") do
    size = tonumber(size)
    if name == "multiuse" then
      name = has(self.p.flags, CONNID_HDR) and "connid" or "padding"
    end
    local read = (name == "padding" or name == "reserved") and self.bytes or self.number
    if not read(self, name, size) then return nil end
  end
  return true
end

-- addresses keeps what is known of raw addresses, by their bytes.
local addresses = {}

-- address reads the 32 bytes of a raw address (table 1.5).
function M.address(range, tree, F, name)
  local raw = range:raw()
  local a = addresses[raw]
  if not a then
    local gid, qpn, connid = tostring(range(0, 16):ipv6()), range(16, 2):le_uint(), range(20, 4):le_uint()
    local text = string.format("fi_addr_efa://[%s]:%d:%d", gid, qpn, connid)
    a = { port = raw:sub(1, 18), connid = connid, text = text, column = string.format("[%s]:%d", gid, qpn) }
    addresses[raw] = a
  end
  local item = tree:add(F[name], range, a.text)
  item:add(F[name .. ".gid"], range(0, 16))
  item:add_le(F[name .. ".qpn"], range(16, 2))
  item:add_le(F[name .. ".connid"], range(20, 4))
  return a, item
end

-- raw_addr reads the optional header of that name (table 3.2).
function Reader:raw_addr()
  if not self:number("raw_addr.size", 4) then return nil end
  local size = self.p["raw_addr.size"]
  if size < RAW_ADDR then
    return self:fail("raw_addr: size " .. size .. " is less than 32")
  elseif self.at + size > self.total then
    return self:fail("raw_addr is missing: the packet is too short")
  end
  local range = self:take("raw_addr", RAW_ADDR)
  if not range then return nil end
  local item
  self.p.introduces, item = M.address(range, self.tree, self.F, "raw_addr")
  item:add_le(self.F["raw_addr.pad"], range(18, 2))
  item:add_le(self.F["raw_addr.reserved"], range(24, 8))
  table.insert(self.p.words, "raw_addr")
  return size == RAW_ADDR or self:bytes("padding", size - RAW_ADDR)
end

function Reader:optional(list)
  for _, o in ipairs(list) do
    if has(self.p.flags, o[1]) then
      local ok
      if o[2] == "raw_addr" then ok = self:raw_addr() else ok = self:fields(o[2]) end
      if not ok then return nil end
    end
  end
  return true
end

-- iov reads an array of efa_rma_iov, if the packet has a count of them.
function Reader:iov(name)
  local count = self.p[name .. "_count"]
  if not count then return true end
  if count > MAX_IOV then
    return self:fail(string.format("%s_count: %d is more than any release sends", name, count))
  end
  local list = {}
  for i = 1, count do
    local range = self:take(name, RMA_IOV)
    if not range then return nil end
    local addr, len, key = range(0, 8):le_uint64(), range(8, 8):le_uint64(), range(16, 8):le_uint64()
    list[i] = string.format("%s+%s@%s", hex(addr), tostring(len), tostring(key))
    local item = self.tree:add(self.F[name], range)
    item:set_text(string.format("%s[%d]: %s", name, i - 1, list[i]))
    for j, member in ipairs({ "addr", "len", "key" }) do
      item:add_le(self.F[name .. "." .. member], range(8 * (j - 1), 8))
    end
  end
  self:word(name, "[" .. table.concat(list, ",") .. "]")
  return true
end

-- extra_info reads the words of that field, of which nextra_p3 tells the number.
function Reader:extra_info(bits)
  local n = self.p.nextra_p3 - 3
  if n < 0 then
    return self:fail("nextra_p3: " .. self.p.nextra_p3 .. " is less than 3")
  elseif self.at + 8 * n > self.total then
    return self:fail("extra_info is missing: the packet is too short")
  end
  for i = 1, n do
    local range = self:take("extra_info", 8)
    if not range then return nil end
    local item = self.tree:add_le(self.F.extra_info, range)
    self:word("extra_info", hex(range:le_uint64()))
    if i == 1 then
      for id = 0, #bits do
        item:add_le(self.F["extra_info." .. bits[id][1]], range)
      end
    end
  end
  return true
end

-- rest gives what is left, at most size bytes, as far as it was captured.
function Reader:rest(size)
  local n = math.min(size, self.total - self.at)
  local seen = math.max(0, math.min(n, self.captured - self.at))
  local range = seen > 0 and self.tvb(self.at, seen) or nil
  if seen < n then self.p.cut = true end
  self.at = self.at + n
  return n, range
end

-- data reads the application data, and what is behind it.
function Reader:data(t)
  local p, F = self.p, self.F
  if t.data then
    local size = self.total - self.at
    if t.data ~= true then
      if p[t.data] > size then
        self:fail(string.format("%s: the packet has %d bytes of data", t.data, size))
      end
      size = math.min(size, p[t.data])
    end
    local n, range = self:rest(size)
    p.len = n
    self:word("len", n)
    self.tree:add(F.len, n):set_generated()
    if range then
      local item = self.tree:add(F.data, range)
      if t.compare and n % 2 == 0 and range:len() == n then
        item:add(F["data.buf"], range(0, n / 2))
        item:add(F["data.compare"], range(n / 2, n / 2))
      end
    end
  end
  local _, range = self:rest(self.total - self.at)
  if range then self.tree:add(F.trailer, range) end
end

-- headers reads all that stands before the data.
function Reader:headers(t, layout)
  local mandatory = t.mandatory
  if t.by_size then
    mandatory = t.by_size[self.p.size]
    if not mandatory then
      return self:fail(string.format("%d bytes are none of its forms", self.p.size))
    end
  end
  if not self:fields(mandatory) then return nil end
  if t.optional_multiuse and not (self.total - self.at < 4 and not has(self.p.flags, CONNID_HDR)) then
    if not self:fields("multiuse:4") then return nil end -- EOR until 1.13 is without
  end
  if t.extra_info and not self:extra_info(layout.extra_info) then return nil end
  return self:iov("rma_iov") and self:optional(t.optional) and self:iov("read_iov")
end

-- new_reader begins with the packet at tvb[at:]. Of its result, words and late are the
-- summary; malformed and cut say why it ends early; kind is the layout, nil if there is
-- none; complete says that all headers are there; head is the first bytes.
local function new_reader(tvb, at, tree, F, layout)
  local captured, total = tvb:len(), tvb:reported_len()
  local p = { words = {}, late = {}, head = "", size = total - at }
  if captured > at then p.head = tvb:raw(at, math.min(64, captured - at)) end
  return setmetatable({
    tvb = tvb, at = at, tree = tree, F = F, p = p, captured = captured, total = total,
    names = { atomic_datatype = layout.datatypes, atomic_op = layout.ops, ref_kind = layout.ref_kinds,
      emitter = layout.emitters },
  }, Reader)
end

-- headerless reads data for a user receive queue pair, which has no headers.
function M.headerless(...)
  local r = new_reader(...)
  table.insert(r.p.words, "HEADERLESS")
  r.tree:add(r.F.headerless, true):set_generated()
  r:data({ data = true })
  return r.p
end

-- packet reads a packet.
function M.packet(tvb, at, tree, F, layout)
  local r = new_reader(tvb, at, tree, F, layout)
  local p = r.p
  local range = r:take("the base header", 4)
  if not range then
    r:data({})
    return p
  end
  local id, version = range(0, 1):uint(), range(1, 1):uint()
  p.flags = range(2, 2):le_uint()
  local t = layout.types[id]
  p.words[1] = t and t.name or layout.unused[id] or "TYPE_" .. id
  tree:add(F.type, range(0, 1))
  tree:add(F.version, range(1, 1))
  local item = tree:add_le(F.flags, range(2, 2))
  for _, bit in ipairs(t and t.flags or layout.flags.other) do
    item:add_le(F["flags." .. bit[2]], range(2, 2))
  end
  if version ~= 4 then
    r:fail("version " .. version .. " is not 4")
  elseif not t then
    r:fail("type " .. id .. (layout.unused[id] and " was never sent by protocol version 4" or " is unknown"))
  else
    p.kind = t
    p.complete = r:headers(t, layout)
  end
  r:data(p.complete and t or {})
  return p
end

return M
