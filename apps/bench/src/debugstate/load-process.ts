// The load on one server, in a process of its own: `<port>`.
import { percentile } from '../measure/figure.ts'
import { onConnections } from '../measure/raw-http.ts'
import type { Answer } from '../measure/raw-http.ts'
import { cpuUs, serve } from '../measure/worker.ts'
import { CONNECTIONS, KEYS, pathOf, SEED, TOKENS, valueOf } from './workloads.ts'

const port = Number(process.argv[2])
/** Number of requests so far. */
let sent = 0

const api = {
  /** Sends requests, and checks the answers. */
  async run(method: 'GET' | 'PUT', times: number) {
    const first = sent
    sent += times
    const heads = headsOf(method)
    const latencies = new Float64Array(times)
    const cpu = cpuUs()
    const startedAt = performance.now()
    await onConnections({ port, connections: CONNECTIONS, times }, async (connection, turn) => {
      const index = first + turn
      const head = heads[index % KEYS] ?? ''
      const sentAt = performance.now()
      const answer = await connection.request(method === 'GET' ? head : head + valueOf(index))
      latencies[turn] = performance.now() - sentAt
      check(answer, method === 'GET' ? { status: 200, body: SEED } : { status: 204, body: '' })
    })
    const wallUs = (performance.now() - startedAt) * 1000
    return { wallUs, p99Us: percentile(latencies, 0.99) * 1000, loadCpuUs: cpuUs() - cpu }
  },
  /** Stores the values that are read. */
  async seed() {
    const heads = headsOf('PUT')
    const all = { port, connections: CONNECTIONS, times: KEYS }
    await onConnections(all, async (connection, index) => {
      const answer = await connection.request((heads[index] ?? '') + SEED)
      check(answer, { status: 204, body: '' })
    })
  },
  /** Reads every written key. Rejects unless it has the value of the last write that was answered. */
  async verify() {
    const heads = headsOf('GET')
    const all = { port, connections: CONNECTIONS, times: Math.min(KEYS, sent) }
    await onConnections(all, async (connection, back) => {
      const index = sent - 1 - back
      const answer = await connection.request(heads[index % KEYS] ?? '')
      check(answer, { status: 200, body: valueOf(index) })
    })
  },
}
export type LoadApi = typeof api
serve(api)

/** The requests to all keys, without their bodies. */
function headsOf(method: 'GET' | 'PUT'): readonly string[] {
  const lines = [`Host: 127.0.0.1`, `Authorization: Bearer ${TOKENS.at(-1) ?? ''}`]
  if (method === 'PUT') lines.push('Content-Type: text/plain', `Content-Length: ${SEED.length}`)
  const rest = ` HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
  return Array.from({ length: KEYS }, (_, index) => `${method} ${pathOf(index)}${rest}`)
}

function check(answer: Answer, expected: Pick<Answer, 'status' | 'body'>): void {
  const { status, etag, body } = answer
  if (status === expected.status && body === expected.body && etag !== undefined) return
  const got = `${status}, ${etag === undefined ? 'no ETag' : 'an ETag'}, ${body.slice(0, 100)}`
  throw new Error(`Wrong answer instead of ${expected.status}: ${got}`)
}
