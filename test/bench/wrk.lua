-- Arguments: the form; the mean pause of a connection between two requests in ms.
function init(args)
  local pause = tonumber(args[2])
  wrk.method, wrk.body = "POST", args[1]
  wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
  -- Exponential pauses spread the requests as many independent clients do.
  if pause > 0 then delay = function() return -math.log(1 - math.random()) * pause end end
end

function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"errors":%d,"rate":%f,"p50":%f,"p99":%f}', summary.requests,
    e.connect + e.read + e.write + e.timeout + e.status, summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
