import type { Answer } from './answer.ts'
import { Connections } from './connections.ts'
import { percentile } from './percentile.ts'
import { CONNECTIONS, KEYS, pathOf, seedOf, TOKENS, valueOf } from './workloads.ts'
import type { Workload, WorkloadName } from './workloads.ts'

/** What one turn of requests took. */
export interface Turn {
  readonly wallUs: number
  readonly p99Us: number
  /** CPU time of the process that made the load. */
  readonly loadCpuUs: number
}

/** Keeps its connections busy: one request in flight on each, and the next one as soon as it is answered. */
export class Load {
  readonly #port: number
  /** Writes of a workload so far: none repeats a value, and every key gets its turn. */
  readonly #sent = new Map<WorkloadName, number>()

  constructor(port: number) {
    this.#port = port
  }

  /** @throws Error for the first answer that is wrong. */
  async run(workload: Workload, times: number): Promise<Turn> {
    const first = this.#sent.get(workload.name) ?? 0
    this.#sent.set(workload.name, first + times)
    const heads = headsOf(workload.method, workload)
    const reads = workload.method === 'GET'
    const stored = seedOf(workload)
    const latencies = new Float64Array(times)
    await using connections = await Connections.open(this.#port, CONNECTIONS)
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    await connections.each(times, async (connection, turn) => {
      const index = first + turn
      const head = heads[index % KEYS] ?? ''
      const sentAt = performance.now()
      const answer = await connection.ask(reads ? head : head + valueOf(workload, index))
      latencies[turn] = performance.now() - sentAt
      check(answer, reads ? { status: 200, body: stored } : { status: 204, body: '' })
    })
    const wallUs = (performance.now() - startedAt) * 1000
    const { user, system } = process.cpuUsage(cpu)
    return { wallUs, p99Us: percentile(latencies, 0.99) * 1000, loadCpuUs: user + system }
  }

  /** Stores what a reading workload reads. */
  async seed(workload: Workload): Promise<void> {
    const heads = headsOf('PUT', workload)
    await using connections = await Connections.open(this.#port, CONNECTIONS)
    await connections.each(KEYS, async (connection, index) => {
      const answer = await connection.ask((heads[index] ?? '') + seedOf(workload))
      check(answer, { status: 204, body: '' })
    })
  }

  /** Reads every key that was written. @throws Error where the last write, which was acknowledged, is not there. */
  async verify(workload: Workload): Promise<void> {
    const sent = this.#sent.get(workload.name) ?? 0
    const heads = headsOf('GET', workload)
    await using connections = await Connections.open(this.#port, CONNECTIONS)
    await connections.each(Math.min(KEYS, sent), async (connection, back) => {
      const index = sent - 1 - back
      const answer = await connection.ask(heads[index % KEYS] ?? '')
      check(answer, { status: 200, body: valueOf(workload, index) })
    })
  }
}

/** The requests for all keys, up to their bodies. */
function headsOf(method: 'GET' | 'PUT', workload: Workload): readonly string[] {
  const token = TOKENS.at(-1) ?? ''
  const lines = [`Host: 127.0.0.1`, `Authorization: Bearer ${token}`]
  if (method === 'PUT') lines.push('Content-Type: text/plain', `Content-Length: ${workload.bytes}`)
  const rest = ` HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`
  return Array.from({ length: KEYS }, (_, index) => `${method} ${pathOf(workload, index)}${rest}`)
}

function check(answer: Answer, expected: Pick<Answer, 'status' | 'body'>): void {
  const { status, etag, body } = answer
  if (status === expected.status && body === expected.body && etag !== undefined) return
  const got = `${status}, ${etag === undefined ? 'no ETag' : 'an ETag'}, ${body.slice(0, 100)}`
  throw new Error(`A wrong answer, where ${expected.status} was due: ${got}`)
}
