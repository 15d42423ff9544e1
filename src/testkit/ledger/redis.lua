-- One step of the ledger in Redis, whole or not at all: Redis runs nothing else meanwhile.
--
-- KEYS: the key's row, the key's fence, the count of rows, the rejected. ARGV: a verb, how far the clock is turned, then what the verb asks for.
-- A row is a hash: seq, state, contents (none for a tombstone), owner, fence, begun, created, updated, lease_end, forget_after, result_for,
-- body_max, turned, status, headers, body, said. The fence is a hash of its own, because it outlives the row: n, released.

local row_key, fence_key, seq_key, rejected_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb, offset = ARGV[1], tonumber(ARGV[2])
local FIRST, LAST = -62135596800000, 253402207200000 -- the years 1 to 9999
local DAY = 86400000

local function text(number) return string.format('%.0f', number) end
local function within(number) return math.max(FIRST, math.min(LAST, number)) end

local time = redis.call('TIME')
local real = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = within(real + offset)

local function corrupt(why) return { 'CORRUPT', why } end

-- A command that meets something of another kind in its place ends the step there: before anything was written.
local function call(...)
  local said = redis.pcall(...)
  if type(said) == 'table' and said.err then return nil, corrupt(said.err) end
  return said
end

-- The row as a table, or nil.
local row
local flat, wrong = call('HGETALL', row_key)
if wrong then return wrong end
if #flat > 0 then
  row = {}
  for i = 1, #flat, 2 do row[flat[i]] = flat[i + 1] end
end

if row then
  for _, field in ipairs({ 'seq', 'created', 'updated', 'fence' }) do
    if not (row[field] and string.match(row[field], '^%-?%d+$')) then return corrupt('its ' .. field .. ' is no number') end
  end
  for _, field in ipairs({ 'lease_end', 'forget_after', 'result_for', 'body_max' }) do
    if row[field] and not string.match(row[field], '^%-?%d+$') then return corrupt('its ' .. field .. ' is no number') end
  end
  if row.state == 'PROCESSING' then
    if not row.owner or not row.contents then return corrupt('it is PROCESSING for nobody') end
  elseif row.state == 'SUCCEEDED' or row.state == 'FAILED' then
    if not (row.status and string.match(row.status, '^%d+$')) or not row.headers then return corrupt('it is finished without an answer') end
  else
    return corrupt('its state is ' .. tostring(row.state))
  end
end

-- What passes by time alone, never with PROCESSING. What is forgotten stays so, however the clock is turned.
if row and row.state ~= 'PROCESSING' then
  local age_over = function(kept) return kept and now >= within(tonumber(row.created) + tonumber(kept)) end
  if age_over(row.forget_after) then
    redis.call('DEL', row_key)
    row = nil
  elseif age_over(row.result_for) and row.body then
    redis.call('HDEL', row_key, 'body')
    row.body = nil
  end
end

local kept
kept, wrong = call('HMGET', fence_key, 'n', 'released')
if wrong then return wrong end
local known, released = kept[1], kept[2]
local fence = known or '0'
if not string.match(fence, '^%d+$') then return corrupt('its fence is no number') end
if row and tonumber(row.fence) > tonumber(fence) then fence = row.fence end

local function next_fence()
  local n = text(tonumber(fence) + 1)
  redis.call('HSET', fence_key, 'n', n)
  if known then redis.call('PERSIST', fence_key) end
  return n
end

-- Memory is bounded by Redis itself, well after the ledger has forgotten by its own clock. Never under a turned clock, which Redis does not know.
local function drop_later(created, forget_after, turned)
  if not forget_after or turned or offset ~= 0 then return end
  local at = created + 2 * forget_after + DAY
  if at >= LAST then return end
  redis.call('PEXPIREAT', row_key, text(at))
  redis.call('PEXPIREAT', fence_key, text(at + 30 * DAY))
end

local function set(fields)
  local flat = {}
  for name, value in pairs(fields) do
    if value ~= '' or name == 'body' or name == 'contents' then
      flat[#flat + 1] = name
      flat[#flat + 1] = value
    end
  end
  redis.call('HSET', row_key, unpack(flat))
end

local function lease_end(lease) return lease ~= '' and text(within(now + tonumber(lease))) or '' end

-- ARGV from `at`: status, headers, body.
local function said(at) return redis.sha1hex(ARGV[at] .. '\n' .. ARGV[at + 1] .. '\n' .. ARGV[at + 2]) end

local function finish(at, of)
  local body = ARGV[at + 2]
  redis.call('HDEL', row_key, 'lease_end', 'body')
  set({
    state = tonumber(ARGV[at]) < 400 and 'SUCCEEDED' or 'FAILED',
    status = ARGV[at], headers = ARGV[at + 1], updated = text(now), said = said(at),
  })
  if not of.body_max or #body <= tonumber(of.body_max) then redis.call('HSET', row_key, 'body', body) end
  drop_later(tonumber(of.created), of.forget_after and tonumber(of.forget_after), of.turned)
end

local function view(of)
  local flat = { 'ROW' }
  for name, value in pairs(of) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  return flat
end

-- owner, contents, forget_after, result_for, lease, body_max
if verb == 'claim' then
  local owner, contents, lease = ARGV[3], ARGV[4], ARGV[7]
  if not row then
    -- This claim had been made and was given back; only its way here was longer.
    if released and string.match(released, '^[^:]*') == owner then return { 'INFLIGHT' } end
    local seq, wrong = call('INCR', seq_key)
    if wrong then return wrong end
    local n = next_fence()
    set({
      seq = text(seq), state = 'PROCESSING', contents = contents, owner = owner, fence = n, begun = '0', created = text(now), updated = text(now),
      forget_after = ARGV[5], result_for = ARGV[6], lease_end = lease_end(lease), body_max = ARGV[8], turned = offset ~= 0 and '1' or '',
    })
    return { 'NEW', n }
  end
  -- Other contents before anything else: who is told to wait would wait for an order that is not his.
  if row.contents and row.contents ~= contents then
    local seq, wrong = call('INCR', seq_key)
    if wrong then return wrong end
    local _, wrong = call('RPUSH', rejected_key, cjson.encode({ seq = text(seq), key = ARGV[9], contents = contents, at = text(now) }))
    if wrong then return wrong end
    redis.call('LTRIM', rejected_key, -1000, -1)
    return { 'CONFLICT' }
  end
  if row.state ~= 'PROCESSING' then
    if not row.body then return { 'GONE' } end
    return { 'KNOWN', row.status, row.headers, row.body }
  end
  -- The answer to this very claim was lost.
  if row.owner == owner then return { 'NEW', row.fence } end
  if not row.lease_end or now < tonumber(row.lease_end) then return { 'INFLIGHT' } end
  if row.begun == '1' then return { 'UNCERTAIN' } end
  local n = next_fence()
  redis.call('HDEL', row_key, 'lease_end')
  set({ owner = owner, fence = n, updated = text(now), lease_end = lease_end(lease) })
  return { 'NEW', n }
end

if verb == 'read' then
  return row and view(row) or { 'NONE' }
end

-- status, headers, body, forget_after, result_for, body_max, owner
if verb == 'tombstone' then
  if row then
    -- Closed by this very call, whose answer was lost.
    if row.owner == ARGV[9] then return { 'NONE' } end
    return view(row)
  end
  local of = { created = text(now), forget_after = ARGV[6] ~= '' and ARGV[6] or nil, body_max = ARGV[8] ~= '' and ARGV[8] or nil,
    turned = offset ~= 0 or nil }
  local seq, wrong = call('INCR', seq_key)
  if wrong then return wrong end
  redis.call('HSET', fence_key, 'n', fence)
  set({
    seq = text(seq), owner = ARGV[9], fence = fence, begun = '0', created = text(now), forget_after = ARGV[6], result_for = ARGV[7], body_max = ARGV[8],
    turned = offset ~= 0 and '1' or '',
  })
  finish(3, of)
  return { 'NONE' }
end

-- status, headers, body, owner
if verb == 'overrule' then
  -- Overruled by this very call, whose answer was lost.
  if row and row.state ~= 'PROCESSING' and row.owner == ARGV[6] then return { 'OK' } end
  if not row or row.state ~= 'PROCESSING' then return { 'NONE' } end
  set({ owner = ARGV[6], fence = next_fence() })
  finish(3, row)
  return { 'OK' }
end

-- The rest asks for the claim itself: owner, fence.
local owner, shown = ARGV[3], ARGV[4]
local own = row and row.owner == owner and row.fence == shown

if verb == 'begin' then
  if not own or row.state ~= 'PROCESSING' then return { 'FENCED' } end
  set({ begun = '1', updated = text(now) })
  return { 'OK' }
end

-- owner, fence, status, headers, body
if verb == 'complete' then
  if not own then return { 'FENCED' } end
  if row.state ~= 'PROCESSING' then
    -- The same answer once more is the same completion.
    return { row.said == said(5) and 'OK' or 'FENCED' }
  end
  finish(5, row)
  return { 'OK' }
end

if verb == 'release' then
  local word = owner .. ':' .. shown
  if not row and released == word then return { 'OK' } end
  if not own or row.state ~= 'PROCESSING' then return { 'FENCED' } end
  redis.call('HSET', fence_key, 'n', fence, 'released', word)
  redis.call('DEL', row_key)
  if offset == 0 and not row.turned then redis.call('PEXPIREAT', fence_key, text(real + 30 * DAY)) end
  return { 'OK' }
end

return corrupt('no verb ' .. verb)
