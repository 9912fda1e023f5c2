import { percentile } from '../debugstate/percentile.ts'
import { Connections } from '../debugstate/connections.ts'
import type { Connection } from '../debugstate/connection.ts'
import { callOf, checkEcho, INITIALIZE, messageFrom, postOf, toolName } from './protocol.ts'
import type { Era } from './protocol.ts'

/** Connections that are kept alive, with a call in flight on each. */
const CONNECTIONS = 16
/** Tools that take turns: the first ones, which everybody has. */
const TOOLS = 10

/** What one turn of calls took. */
export interface Turn {
  readonly wallUs: number
  readonly p99Us: number
  /** CPU time of the process that made the load. */
  readonly loadCpuUs: number
}

/** Calls tools; in a session for each connection, where the era has them. */
export class CallLoad {
  readonly #port: number
  readonly #sessions: string[] = []
  #calls = 0

  constructor(port: number) {
    this.#port = port
  }

  /** @throws Error for the first answer that is wrong */
  async run(era: Era, times: number): Promise<Turn> {
    const latencies = new Float64Array(times)
    await using connections = await Connections.open(this.#port, CONNECTIONS)
    if (era === 'legacy') await this.#openSessions(connections)
    const sessionOf = new Map<Connection, string>()
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    await connections.each(times, async (connection, turn) => {
      const id = ++this.#calls
      const request = postOf(era, callOf(id, toolName(id % TOOLS)), this.#of(connection, sessionOf))
      const sentAt = performance.now()
      const { status, body } = await connection.ask(request)
      latencies[turn] = performance.now() - sentAt
      if (status !== 200) throw new Error(`A call was answered with ${status}: ${body}`)
      checkEcho(messageFrom(body), id)
    })
    const wallUs = (performance.now() - startedAt) * 1000
    const { user, system } = process.cpuUsage(cpu)
    return { wallUs, p99Us: percentile(latencies, 0.99) * 1000, loadCpuUs: user + system }
  }

  async #openSessions(connections: Connections): Promise<void> {
    await connections.each(CONNECTIONS - this.#sessions.length, async (connection) => {
      this.#sessions.push(await openSession(connection))
    })
  }

  #of(connection: Connection, taken: Map<Connection, string>): string | undefined {
    if (this.#sessions.length === 0) return undefined
    const session = taken.get(connection) ?? this.#sessions[taken.size] ?? ''
    taken.set(connection, session)
    return session
  }
}

/** Shakes hands. @returns the id of the session */
export async function openSession(connection: Connection): Promise<string> {
  const { status, session, body } = await connection.ask(postOf('legacy', INITIALIZE))
  if (status !== 200 || session === undefined) {
    throw new Error(`No session was opened: ${status} ${body.slice(0, 200)}`)
  }
  const ready = await connection.ask(
    postOf('legacy', { method: 'notifications/initialized' }, session),
  )
  if (ready.status !== 202) throw new Error(`A session is not ready: ${ready.status}`)
  return session
}
