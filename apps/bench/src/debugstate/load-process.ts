// The load on one server, in a process of its own: `<port>`.
import { percentile } from '../measure/figure.ts'
import { onConnections } from '../measure/raw-http.ts'
import type { Answer } from '../measure/raw-http.ts'
import { cpuUs, serve } from '../measure/worker.ts'
import { CONNECTIONS, KEYS, pathOf, seedOf, TOKENS, valueOf, WORKLOADS } from './workloads.ts'
import type { Workload, WorkloadName } from './workloads.ts'

const port = Number(process.argv[2])
/** Number of requests of each workload so far. */
const sent = new Map<WorkloadName, number>()

const api = {
  /** Sends requests, and checks the answers. */
  async run(name: WorkloadName, times: number) {
    const workload = WORKLOADS[name]
    const first = sent.get(name) ?? 0
    sent.set(name, first + times)
    const heads = headsOf(workload.method, workload)
    const reads = workload.method === 'GET'
    const stored = seedOf(workload)
    const latencies = new Float64Array(times)
    const cpu = cpuUs()
    const startedAt = performance.now()
    await onConnections({ port, connections: CONNECTIONS, times }, async (connection, turn) => {
      const index = first + turn
      const head = heads[index % KEYS] ?? ''
      const sentAt = performance.now()
      const answer = await connection.request(reads ? head : head + valueOf(workload, index))
      latencies[turn] = performance.now() - sentAt
      check(answer, reads ? { status: 200, body: stored } : { status: 204, body: '' })
    })
    const wallUs = (performance.now() - startedAt) * 1000
    return { wallUs, p99Us: percentile(latencies, 0.99) * 1000, loadCpuUs: cpuUs() - cpu }
  },
  /** Stores the values that a reading workload reads. */
  async seed(name: WorkloadName) {
    const heads = headsOf('PUT', WORKLOADS[name])
    const all = { port, connections: CONNECTIONS, times: KEYS }
    await onConnections(all, async (connection, index) => {
      const answer = await connection.request((heads[index] ?? '') + seedOf(WORKLOADS[name]))
      check(answer, { status: 204, body: '' })
    })
  },
  /** Reads every written key. Rejects unless it has the value of the last write that was answered. */
  async verify(name: WorkloadName) {
    const total = sent.get(name) ?? 0
    const heads = headsOf('GET', WORKLOADS[name])
    const all = { port, connections: CONNECTIONS, times: Math.min(KEYS, total) }
    await onConnections(all, async (connection, back) => {
      const index = total - 1 - back
      const answer = await connection.request(heads[index % KEYS] ?? '')
      check(answer, { status: 200, body: valueOf(WORKLOADS[name], index) })
    })
  },
}
export type LoadApi = typeof api
serve(api)

/** The requests to all keys, without their bodies. */
function headsOf(method: 'GET' | 'PUT', workload: Workload): readonly string[] {
  const lines = [`Host: 127.0.0.1`, `Authorization: Bearer ${TOKENS.at(-1) ?? ''}`]
  if (method === 'PUT') lines.push('Content-Type: text/plain', `Content-Length: ${workload.bytes}`)
  const rest = ` HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
  return Array.from({ length: KEYS }, (_, index) => `${method} ${pathOf(workload, index)}${rest}`)
}

function check(answer: Answer, expected: Pick<Answer, 'status' | 'body'>): void {
  const { status, etag, body } = answer
  if (status === expected.status && body === expected.body && etag !== undefined) return
  const got = `${status}, ${etag === undefined ? 'no ETag' : 'an ETag'}, ${body.slice(0, 100)}`
  throw new Error(`Wrong answer instead of ${expected.status}: ${got}`)
}
