-- Relations between packets: which one answers which, which are segments of one message,
-- which are one packet seen at both its ends. It does not depend on Wireshark.
--
-- Ids belong to an owner, which reuses them, so each is looked up under owner, peer and
-- kind, and the latest packet that introduced it has it. Kinds are send (the sender's of
-- the data), recv (the receiver's), rsend (send_id of a READRSP, which old releases count
-- apart) and msg (msg_id).
--
-- A packet here is a table:
--   first, second       its frames: second if the capture has it at both ends
--   time, second_time   when it was seen in these
--   name, head          its type; its first bytes
--   from, to, stream    endpoints, and the number of the pair
--   op                  its operation, see new_op
--   response_to         the packet that it answers
--   responses           the packets that answer it
--   repost_of           the packet of which it is a repetition
--   lost                it answers something that isn't in the capture

local M = {}

local Links = {}
Links.__index = Links

function M.new()
  return setmetatable({
    frames = {},   -- packet by number of the frame
    hosts = {},    -- endpoints by GID and QPN: see endpoint
    endpoints = 0, -- their number
    streams = {}, stream_count = 0,
    unmatched = {}, -- packets seen at one end, by what both ends have in common
    ids = {},      -- operation by owner, peer, kind and id
    begun = {},    -- the first packet, by sender and receiver
    greeted = {},  -- the HANDSHAKE, by sender and receiver
    user_qps = {}, -- queue pairs for data without headers, by GID and QPN
  }, Links)
end

-- endpoint returns the endpoint with an address: GID and QPN are reused, the connid
-- distinguishes one from the next. Without a connid, as for senders elsewhere, it is the
-- latest one.
function Links:endpoint(port, connid)
  local host = self.hosts[port]
  if not host then
    host = { by_connid = {} }
    self.hosts[port] = host
  end
  local known = connid and connid ~= 0
  local e = host.latest
  if known then
    e = host.by_connid[connid]
    if not e and host.latest and not host.latest.connid then e = host.latest end
  end
  if not e then
    self.endpoints = self.endpoints + 1
    e = { number = self.endpoints, port = port }
    host.latest = e
  end
  if known then
    e.connid = connid
    host.by_connid[connid] = e
  end
  return e
end

function Links:stream(a, b)
  local key = math.min(a.number, b.number) .. " " .. math.max(a.number, b.number)
  if not self.streams[key] then
    self.streams[key] = self.stream_count
    self.stream_count = self.stream_count + 1
  end
  return self.streams[key]
end

-- other_end finds the packet of which this is the other end. Both ends have the bytes,
-- the addresses but for the sender's connid, and one direction each; of packets that
-- are alike the first ones belong together.
function Links:other_end(key, direction)
  if direction < 0 then return nil end
  local list = self.unmatched[key]
  local found = list and list[list.from]
  if not found or found.direction == direction then return nil end
  list[list.from] = nil
  list.from = list.from + 1
  if list.from > list.to then self.unmatched[key] = nil end
  return found
end

function Links:await_other_end(key, pk)
  local list = self.unmatched[key]
  if not list then
    list = { from = 1, to = 0 }
    self.unmatched[key] = list
  end
  list.to = list.to + 1
  list[list.to] = pk
end

local function slot(owner, peer, kind, id)
  return owner.number .. " " .. peer.number .. " " .. kind .. " " .. id
end

function Links:find(owner, peer, kind, id)
  return id and self.ids[slot(owner, peer, kind, id)]
end

function Links:bind(owner, peer, kind, id, op)
  if id then self.ids[slot(owner, peer, kind, id)] = op end
end

local function answer(pk, to)
  if not to then return end
  pk.response_to = to
  to.responses = to.responses or {}
  table.insert(to.responses, pk)
end

-- new_op is an operation that pk begins:
--   request, asked      its first packet; the one that was answered or is to be: another
--                       one after READ_NACK
--   nack, cts, readrsp  those answers, the latest
--   total, got          bytes that travel in packets, and of these those in the capture
--   list, offsets       its segments in order, and by their offset
local function new_op(pk)
  local op = { request = pk, asked = pk, got = 0, list = {}, offsets = {} }
  pk.op = op
  return op
end

-- segment adds data to an operation, unless it is there already.
local function segment(op, pk, offset, len, total)
  op.total = total or op.total
  if len == 0 then return end
  pk.repost_of = op.offsets[offset]
  if pk.repost_of then return end
  op.offsets[offset] = pk
  op.got = op.got + len
  table.insert(op.list, pk)
end

-- again finds the operation of a REQ packet that isn't its first one, and says why:
-- it is a segment, or sent again, or resumes what READ_NACK refused.
function Links:again(pk, p)
  local op
  if p.msg_id then
    op = self:find(pk.from, pk.to, "msg", p.msg_id)
  else
    op = self:find(pk.from, pk.to, p.send_id and "send" or "recv", p.send_id or p.recv_id)
  end
  if not op then return nil end
  local latest = op.asked
  if op.nack and latest == op.request and p.kind.answers.CTS then
    return op, "resumes"
  elseif latest.name ~= pk.name then
    return nil
  elseif p.kind.segment then
    if op.total == p[p.kind.segment] then return op, "segment" end
  elseif latest.head == pk.head and (p.msg_id or not latest.responses) then
    return op, "repost" -- without msg_id, after an answer, it would be a request anew
  end
end

function Links:request(pk, p)
  local op, why = self:again(pk, p)
  if not op then
    op = new_op(pk)
    self:bind(pk.from, pk.to, "msg", p.msg_id, op)
    self:bind(pk.from, pk.to, "recv", p.recv_id, op)
  end
  pk.op = op
  if why == "repost" then
    pk.repost_of = op.asked
    return
  elseif why == "resumes" then
    op.asked = pk
    answer(pk, op.nack)
  end
  self:bind(pk.from, pk.to, "send", p.send_id, op)
  if p.kind.segment then
    segment(op, pk, p.seg_offset, p.len, p[p.kind.segment])
  elseif p.msg_length and not p.kind.answers.EOR then
    segment(op, pk, 0, p.len or 0, p.msg_length)
  end
end

-- lookup finds what each type answers: its operation by its ids.
local lookup = {
  CTS = function(self, pk, p)
    local read = p.flags % 0x100 >= 0x80 -- CTS_EMULATED_READ
    local a, b = read and "rsend" or "send", read and "send" or "rsend"
    return self:find(pk.to, pk.from, a, p.send_id) or self:find(pk.to, pk.from, b, p.send_id)
  end,
}
lookup.EOR = function(self, pk, p) return self:find(pk.to, pk.from, "send", p.send_id) end
lookup.READ_NACK, lookup.RECEIPT = lookup.EOR, lookup.EOR
lookup.READRSP = function(self, pk, p) return self:find(pk.to, pk.from, "recv", p.recv_id) end
lookup.ATOMRSP, lookup.CTSDATA = lookup.READRSP, lookup.READRSP

-- once holds for types of which an operation has one: a second is sent again.
local function once(op, pk, to)
  local before = op[pk.name]
  if before then
    pk.repost_of = before
  else
    op[pk.name] = pk
    answer(pk, to)
  end
end

local arrived = {
  EOR = function(_, pk, _, op) once(op, pk, op.asked) end,
  CTS = function(self, pk, p, op)
    if op.cts and op.cts.head == pk.head and not op.cts.responses then
      pk.repost_of = op.cts
      return
    end
    op.cts = pk
    answer(pk, op.readrsp or op.asked)
    self:bind(pk.from, pk.to, "recv", p.recv_id, op)
  end,
  CTSDATA = function(_, pk, p, op)
    segment(op, pk, p.seg_offset, p.len)
    if not pk.repost_of then answer(pk, op.cts or op.asked) end
  end,
}
arrived.RECEIPT, arrived.ATOMRSP = arrived.EOR, arrived.EOR
arrived.READ_NACK = function(_, pk, _, op)
  once(op, pk, op.asked)
  op.nack = op.nack or pk
end
arrived.READRSP = function(self, pk, p, op)
  once(op, pk, op.asked)
  if pk.repost_of then return end
  op.readrsp = pk
  self:bind(pk.from, pk.to, "rsend", p.send_id, op)
  segment(op, pk, 0, p.len)
end

function Links:response(pk, p)
  local op = lookup[pk.name](self, pk, p)
  -- After READ_NACK the asked packet is another: what repeats the nack fits the first.
  if not op or not (op.asked.answers[pk.name] or op[pk.name]) then
    pk.lost = true
    return
  end
  pk.op = op
  arrived[pk.name](self, pk, p, op)
end

-- aborted finds what a PEER_ERROR is about: of its receiver's by an id, or a message of
-- its sender's.
function Links:aborted(pk, p)
  if p.ref_kind and p.ref_kind ~= 0 then
    pk.op = self:find(pk.from, pk.to, "msg", p.op_id)
    return
  elseif not p.ref_kind and (p.op_id == 0xffffffff or p.op_id_valid == 0) then
    if p.emitter == 2 then
      pk.op = self:find(pk.to, pk.from, "msg", p.msg_id)
    else
      pk.op = self:find(pk.from, pk.to, "msg", p.msg_id)
    end
    return
  end
  for _, kind in ipairs({ "send", "recv", "rsend" }) do
    local op = self:find(pk.to, pk.from, kind, p.op_id)
    if op and (not pk.op or op.request.first > pk.op.request.first) then pk.op = op end
  end
  pk.lost = not pk.op
  if pk.op then
    answer(pk, pk.op.asked.to == pk.from and pk.op.asked or pk.op.cts or pk.op.readrsp)
  end
end

function Links:handshake(pk, p)
  local key = pk.from.number .. " " .. pk.to.number
  local before = self.greeted[key]
  if before then
    if before.head == pk.head then pk.repost_of = before end
  else
    self.greeted[key] = pk
    answer(pk, self.begun[pk.to.number .. " " .. pk.from.number])
  end
  if p["user_recv_qp.qpn"] and p["user_recv_qp.qpn"] < 0x10000 then
    local qpn = p["user_recv_qp.qpn"]
    self.user_qps[pk.from.port:sub(1, 16) .. string.char(qpn % 256, math.floor(qpn / 256))] = true
  end
end

-- see takes the next packet: frame is { number, time, direction }, direction 0 if sent,
-- 1 if received, -1 if not known; src and dst are addresses, p what decode.lua found.
function Links:see(frame, src, dst, p)
  local key = src.port .. dst.port .. dst.connid .. " " .. p.size .. " " .. p.head
  local pk = self:other_end(key, frame.direction)
  if pk then
    pk.second, pk.second_time = frame.number, frame.time
    self.frames[frame.number] = pk
    return
  end
  local connid = src.connid
  if connid == 0 then connid = p.connid or p.introduces and p.introduces.connid end
  local from, to = self:endpoint(src.port, connid), self:endpoint(dst.port, dst.connid)
  pk = {
    first = frame.number, time = frame.time, direction = frame.direction, head = p.head,
    from = from, to = to, stream = self:stream(from, to), name = p.kind and p.kind.name,
    answers = p.kind and p.kind.answers, headerless = self.user_qps[dst.port],
  }
  self.frames[frame.number] = pk
  if frame.direction >= 0 then self:await_other_end(key, pk) end
  if pk.headerless or not p.complete or p.malformed then return end
  if p.kind.req then
    self:request(pk, p)
  elseif lookup[pk.name] then
    self:response(pk, p)
  elseif pk.name == "PEER_ERROR" then
    self:aborted(pk, p)
  else
    self:handshake(pk, p)
  end
  local way = from.number .. " " .. to.number
  self.begun[way] = self.begun[way] or pk
end

return M
