import { setTimeout as sleep } from 'node:timers/promises'
import type {
  AgentMessage,
  AgentSpec,
  Call,
  DriverMessage,
  Holdings,
  Settlement,
} from './protocol.ts'

/** A client under test. Each contender of the comparison implements it. */
export interface AgentClient {
  /**
   * Makes the call and says what became of it. A rejection counts as `failed`. `signal` aborts when the
   * caller gives the call up; the client enforces `call.deadlineMs` itself.
   */
  call(call: Call, signal: AbortSignal): Promise<CallReport>
  /** Ends the sessions and frees everything. */
  close(): Promise<void>
}

/** Outcome that a client reports for a call. The agent process adds the rest of the {@link Settlement}. */
export type CallReport = Omit<Settlement, 'key' | 'ms' | 'lagMs'>

/** Opens the client of one principal. It is opened again when a call comes after `close()`. */
export type OpenClient = (spec: AgentSpec, principal: string) => AgentClient | Promise<AgentClient>

/** Interval of the timer that measures the delay of the event loop. */
const TICK_MS = 20
/** Time that sockets get to close after the clients were closed, in addition to the delay of the event loop. */
const RELEASE_MS = 5000

/**
 * Runs this process as an agent: makes the calls that the driver sends, with one client for each
 * principal, until the driver disconnects.
 */
export function serveAgent(open: OpenClient): void {
  const spec: AgentSpec = JSON.parse(process.argv[2] ?? '{}')
  const clients = new Map<string, Promise<AgentClient>>()

  const realNow = Date.now.bind(Date)
  let clockOffsetMs = 0
  Date.now = () => realNow() + clockOffsetMs

  const delayMs = measureDelay()
  const timely = (): number => performance.now() - delayMs()

  const clientFor = async (principal: string): Promise<AgentClient> => {
    const opened = clients.get(principal) ?? Promise.resolve(open(spec, principal))
    clients.set(principal, opened)
    try {
      return await opened
    } catch (error) {
      if (clients.get(principal) === opened) clients.delete(principal) // the next call tries again
      throw error
    }
  }

  const settle = async (call: Call): Promise<void> => {
    const startedAt = performance.now()
    const delayAtStart = delayMs()
    const abort = new AbortController()
    const timer =
      call.abortAfterMs !== undefined && setTimeout(() => abort.abort(), call.abortAfterMs)
    let report: CallReport
    try {
      report = await (await clientFor(call.principal)).call(call, abort.signal)
    } catch (error) {
      report = { outcome: 'failed', progressKeys: [], error: String(error) }
    }
    if (timer) clearTimeout(timer)
    const lagMs = delayMs() - delayAtStart
    const ms = performance.now() - startedAt
    send({ type: 'settled', settlement: { ...report, key: call.key, ms, lagMs } })
  }

  const start = holdings()
  const close = async (): Promise<void> => {
    const opened = [...clients.values()]
    clients.clear()
    await Promise.allSettled(opened.map(async (client) => (await client).close()))
    const until = timely() + RELEASE_MS
    while (exceeds(holdings().resources, start.resources) && timely() < until) {
      await sleep(20, undefined, { ref: false })
    }
    send({ type: 'closed', holdings: holdings() })
  }

  process.on('message', (message: DriverMessage) => {
    if (message.type === 'call') void settle(message.call)
    else if (message.type === 'jump-clock') clockOffsetMs += message.ms
    else void close()
  })
  process.on('disconnect', () => process.exit())
  send({ type: 'ready', holdings: start })
}

/** Starts a timer. Returns a function that returns the sum of the delays of the event loop so far. */
export function measureDelay(): () => number {
  let sum = 0
  let last = performance.now()
  const late = (): number => Math.max(0, performance.now() - last - TICK_MS)
  setInterval(() => {
    sum += late()
    last = performance.now()
  }, TICK_MS).unref()
  return () => sum + late() // the timer itself may be late
}

/** Reads the answer of the tool from what a client returned for the call. */
export function answerFrom(result: ToolResult): CallReport['answer'] {
  const text = result.content?.find((part) => typeof part.text === 'string')?.text
  let answer: unknown = result.structuredContent
  try {
    answer ??= JSON.parse(text ?? '')
  } catch {
    return undefined
  }
  if (typeof answer !== 'object' || answer === null) return undefined
  if (!('key' in answer && 'principal' in answer)) return undefined
  return { key: String(answer.key), principal: String(answer.principal) }
}

/** The part of a `CallToolResult` that {@link answerFrom} reads. */
interface ToolResult {
  readonly content?: readonly { readonly text?: string }[]
  readonly structuredContent?: unknown
}

function send(message: AgentMessage): void {
  process.send?.(message, () => {})
}

function exceeds(now: Holdings['resources'], start: Holdings['resources']): boolean {
  return Object.entries(now).some(([name, count]) => count > (start[name] ?? 0))
}

function holdings(): Holdings {
  globalThis.gc?.()
  const resources: Record<string, number> = {}
  for (const name of process.getActiveResourcesInfo()) {
    if (name !== 'PipeWrap') resources[name] = (resources[name] ?? 0) + 1
  }
  return { heapBytes: process.memoryUsage().heapUsed, resources }
}
