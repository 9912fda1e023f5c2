import type { Exchange, LedgerEntry } from '@x/mcp-testing'
import type { Call, Holdings, Settlement } from './agent.ts'

/** A call that the driver sent to an agent. */
export interface CallRecord {
  readonly call: Call
  readonly agent: string
  readonly kind: string
  /** Milliseconds on the clock of the run. */
  readonly startedAt: number
  readonly settlements: Settlement[]
  /** The agent was killed before the call settled. */
  killed: boolean
  /** The last call of a client to a server, when no fault was left: it must succeed. */
  mustSucceed: boolean
}

/** One HTTP exchange of a client with a server. */
export interface ExchangeRecord
  extends
    Pick<Exchange, 'httpMethod' | 'rpcMethod' | 'key' | 'principal' | 'status' | 'fault'>,
    Pick<Exchange, 'sessionId' | 'assignedSessionId' | 'delivered' | 'end'> {
  readonly server: string
  /** Milliseconds on the clock of the run. */
  readonly at: number
}

/** Everything that the checks and figures of a run need. The run fills it in. */
export class RunRecord {
  readonly calls: Map<string, CallRecord> = new Map()
  /** Calls whose tool was started. */
  executions: readonly Pick<LedgerEntry, 'key' | 'principal'>[] = []
  exchanges: readonly ExchangeRecord[] = []
  /** Sessions that legacy servers still have at the end. */
  sessions: readonly { readonly server: string; readonly id: string }[] = []
  /** Principals whose agent keeps its sessions for the next process. */
  durable: ReadonlySet<string> = new Set()
  /** Processes that a fault killed. */
  readonly kills: { readonly name: string; readonly at: number }[] = []
  /** Name of each fault of the driver. */
  readonly driverFaults: string[] = []
  readonly restarts: { readonly server: string; readonly at: number }[] = []
  /** Each agent after it has closed all clients. */
  agents: readonly { readonly name: string; readonly holdings: Holdings | undefined }[] = []
  /** Connections that are still open at the end, by server. */
  sockets: Readonly<Record<string, number>> = {}
  /** Child processes that still run at the end. */
  processes = 0
  /** Processes that ended without being told to. */
  readonly crashes: string[] = []
  /** Lines for the report: parts of the world that were left out. */
  readonly notes: string[] = []
  /** Time in which calls were made under faults. */
  seconds = 0
  readonly #startedAt = performance.now()

  /** Milliseconds since the start of the run. */
  now(): number {
    return performance.now() - this.#startedAt
  }
}
