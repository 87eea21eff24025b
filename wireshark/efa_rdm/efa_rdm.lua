-- Wireshark dissector of the EFA RDM protocol, version 4, for captures that efactor's
-- device tap writes: link type USER0, each packet preceded by the raw addresses of its
-- sender and its receiver, 32 bytes each.
--
-- It is this directory: copy it as a whole to a folder of plugins, or load this file
-- with -X lua_script:.../efa_rdm.lua. README.md has the rest. The other files only
-- return tables, so that it does no harm that Wireshark loads them as plugins, too.

local function part(name) return dofile(__DIR__ .. "/" .. name .. ".lua") end

local layout, fields, decode, links = part("layout"), part("fields"), part("decode"), part("links")

local proto = Proto("efa_rdm", "EFA RDM protocol version 4")
local F, E = fields.make(layout), fields.make_experts()
do
  local list, experts = {}, {}
  for _, f in pairs(F) do list[#list + 1] = f end
  for _, e in pairs(E) do experts[#experts + 1] = e end
  proto.fields, proto.experts = list, experts
end

local ADDRESSES = 64

local seen = links.new()
function proto.init() seen = links.new() end

-- seconds makes an NSTime of a difference.
local function seconds(t)
  local whole = math.floor(t)
  local nanos = math.floor((t - whole) * 1e9 + 0.5)
  if nanos == 1e9 then whole, nanos = whole + 1, 0 end
  return NSTime.new(whole, nanos)
end

-- message shows the transfer that a packet has a part in.
local function message(pk, tree)
  local op = pk.op
  if not op.total or op.total >= 2 ^ 53 or #op.list == 0 then return end
  local function add(name, value) tree:add(F["message." .. name], value):set_generated() end
  local function bytes(n) return UInt64.new(n % 2 ^ 32, math.floor(n / 2 ^ 32)) end
  add("first", op.request.first)
  if pk == op.request then
    for _, s in ipairs(op.list) do add("segment", s.first) end
  end
  add("length", bytes(op.total))
  add("missing", bytes(math.max(0, op.total - op.got)))
end

-- relations shows what links.lua knows of the packet in this frame.
local function relations(pk, pinfo, tree, p)
  local second = pk.second == pinfo.number
  tree:add(F.stream, pk.stream):set_generated()
  local function link(name, frame) return tree:add(F[name], frame):set_generated() end
  if pk.op and pk.op.request ~= pk then link("request", pk.op.request.first) end
  if pk.response_to then
    link("response_to", pk.response_to.first)
    link("time", seconds((second and pk.second_time or pk.time) - pk.response_to.time))
  end
  for _, r in ipairs(pk.responses or {}) do link("response_in", r.first) end
  if pk.lost then tree:add_proto_expert_info(E.no_request) end
  if pk.repost_of then
    link("repost_of", pk.repost_of.first):add_proto_expert_info(E.repost)
  end
  if pk.op then
    message(pk, tree)
    local o = pk.op.total
    if o and p.len and (p.seg_offset or 0) + p.len > o then tree:add_proto_expert_info(E.beyond_message) end
  end
  if second then
    link("copy_of", pk.first)
    return string.format(" [copy of #%d]", pk.first)
  elseif pk.second then
    link("copy_in", pk.second)
  end
  return ""
end

local function malformed(pinfo, tree, why)
  tree:add_proto_expert_info(E.malformed, "Malformed: " .. why)
  pinfo.cols.info:append(" [Malformed: " .. why .. "]")
end

function proto.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "EFA-RDM"
  pinfo.cols.info = ""
  if tvb:len() < ADDRESSES then
    local tree = tvb:len() > 0 and root:add(proto, tvb()) or root:add(proto)
    malformed(pinfo, tree, "no room for two raw addresses")
    return
  end
  local tree = root:add(proto, tvb())
  local src = decode.address(tvb(0, 32), tree, F, "src")
  local dst = decode.address(tvb(32, 32), tree, F, "dst")
  pinfo.cols.src, pinfo.cols.dst = src.column, dst.column

  local pk, p = seen.frames[pinfo.number], nil
  local headerless = seen.user_qps[dst.port]
  if pk then headerless = pk.headerless end
  if headerless then
    p = decode.headerless(tvb, ADDRESSES, tree, F, layout)
  else
    p = decode.packet(tvb, ADDRESSES, tree, F, layout)
  end
  if not pk then
    seen:see({ number = pinfo.number, time = pinfo.rel_ts, direction = pinfo.p2p_dir }, src, dst, p)
    pk = seen.frames[pinfo.number]
  end
  for _, word in ipairs(p.late) do table.insert(p.words, word) end
  local text = table.concat(p.words, " ")
  pinfo.cols.info = text
  tree:set_text("EFA RDM, " .. text)
  pinfo.cols.info:append(relations(pk, pinfo, tree, p))
  if p.recv_length == 0 and not p.malformed then tree:add_proto_expert_info(E.zero_recv_length) end
  if p.malformed then
    malformed(pinfo, tree, p.malformed)
  elseif p.cut then
    pinfo.cols.info:append(" [cut short by the capture]")
  end
end

DissectorTable.get("wtap_encap"):add(wtap_encaps.USER0, proto)
