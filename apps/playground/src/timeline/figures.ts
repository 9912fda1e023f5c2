import type { Exchange } from './events.ts'

/** Figures of exchanges of MCP servers; those with the debug-state service count as bytes only. */
export function figuresOf(exchanges: readonly Exchange[]) {
  const durations: number[] = []
  const lastStreams = new Map<string, Exchange>()
  let handshakes = 0
  let reconnects = 0
  let resumes = 0
  let bytes = 0
  for (const exchange of exchanges) {
    const { kind, rpcMethod, status = 0, durationMs } = exchange
    bytes += exchange.requestBytes + exchange.responseBytes
    const isAnswered = status >= 200 && status < 400
    if (!isAnswered) continue
    if (rpcMethod === 'initialize' || rpcMethod === 'server/discover') {
      handshakes++
      if (kind === 'recovery') reconnects++
    }
    if (kind === 'resume') resumes++
    if (rpcMethod === 'tools/call' && durationMs !== undefined) durations.push(durationMs)
    if (kind === 'stream') {
      const key = JSON.stringify([exchange.from, exchange.to, exchange.sessionId])
      const last = lastStreams.get(key)
      if (last?.durationMs !== undefined && last.problem !== 'client left') reconnects++
      lastStreams.set(key, exchange)
    }
  }
  const sorted = durations.toSorted((a, b) => a - b)
  return {
    /** Answered tool calls. */
    calls: sorted.length,
    /** Answers to `initialize` and `server/discover`. */
    handshakes,
    /** Handshakes that a client would need beyond that if it opened a session for each call. */
    handshakesSaved: Math.max(0, sorted.length - handshakes),
    /** Sessions that were replaced after their loss, and streams that were opened again after the server ended them. */
    reconnects,
    /** Sessions that a process took up without a handshake. */
    resumes,
    /** Median duration of the answered tool calls; absent without any. */
    p50Ms: quantile(sorted, 0.5),
    p95Ms: quantile(sorted, 0.95),
    /** Bytes of the bodies of requests and answers. */
    bytes,
  }
}

/** The smallest number that is not below this share of the sorted numbers. */
function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)]
}
