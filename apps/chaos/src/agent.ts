/**
 * An agent is a child process that makes tool calls with the client under test. The driver starts it by
 * `fork()`, with an {@link AgentSpec} as JSON in its only argument, and exchanges messages with it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'

/** Servers and users of an agent process. */
export interface AgentSpec {
  /** Name in reports, such as `agent-2`. */
  readonly name: string
  /** Client that the agent uses. Its program knows several. */
  readonly kind: string
  /** URL of each server, by the name that calls use. */
  readonly servers: Readonly<Record<string, string>>
  /** Users that the agent acts for. Each one sends `Authorization: Bearer <principal>`. */
  readonly principals: readonly string[]
  /** Service that keeps session records, so that the next process resumes them. Absent: in memory. */
  readonly debugStateUrl?: string
  /** Time limit for connecting, and for calls of clients that have no option for each call. */
  readonly deadlineMs: number
}

/** One tool call that the agent makes. */
export interface Call {
  /** Unique in the run. The tool gets it as its argument `key`, and returns it. */
  readonly key: string
  /** A name in {@link AgentSpec.servers}. */
  readonly server: string
  readonly principal: string
  readonly tool: string
  /** Milliseconds after which the call must have settled. */
  readonly deadlineMs: number
  /** Milliseconds after which the caller aborts the call. Absent: never. */
  readonly abortAfterMs?: number
}

/**
 * Outcome that the client reported. `executed`: it returned a result. `not-executed` and `unknown`: its
 * error says so. `failed`: its error does not say whether the call was executed, as with most clients.
 */
export type Outcome = 'executed' | 'not-executed' | 'unknown' | 'failed'

/** A call that has settled. */
export interface Settlement {
  readonly key: string
  readonly outcome: Outcome
  /** Duration in milliseconds, on a clock that never jumps. */
  readonly ms: number
  /** Part of `ms` by which the event loop of the agent was late: the machine was busy. */
  readonly lagMs: number
  /** Result of the tool: the key of the call and the principal that the server saw. */
  readonly answer?: { readonly key: string; readonly principal: string } | undefined
  /** Messages of the progress notifications of this call. The tool sends its key. */
  readonly progressKeys: readonly string[]
  /** Code and message of the error. */
  readonly error?: string
}

/** Memory and resources that an agent process has acquired since its start, and still holds. */
export interface Holdings {
  /** After a garbage collection. */
  readonly heapBytes: number
  /** Additional entries of `process.getActiveResourcesInfo()` by name. */
  readonly resources: Readonly<Record<string, number>>
}

export type DriverMessage =
  | { readonly type: 'call'; readonly call: Call }
  /** `Date.now()` jumps by this many milliseconds, forward or back. */
  | { readonly type: 'jump-clock'; readonly ms: number }
  /** Closes all clients, then reports what the process still holds. */
  | { readonly type: 'close' }

export type AgentMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'settled'; readonly settlement: Settlement }
  | { readonly type: 'closed'; readonly holdings: Holdings }

/** A client under test, for all servers and principals of the agent. */
export interface AgentClient {
  /** Resolves to the result that users of the client get, and rejects with the error that they get. */
  call(call: Call, options: CallOptions): Promise<unknown>
  /** Ends the sessions and frees everything. */
  close(): Promise<unknown>
}

interface CallOptions {
  /** Aborts when the caller gives up. The client itself enforces the deadline of the call. */
  readonly signal: AbortSignal
  /** Called with the message of each progress notification of the call. */
  readonly onProgress: (message: unknown) => void
}

/** Interval of the timer that measures the delay of the event loop. */
const TICK_MS = 20
/** Time that sockets get to close after the clients were closed. */
const RELEASE_MS = 5000

/**
 * Makes the calls that the driver sends, until the driver disconnects. `open` is called again when a
 * call comes after the client was closed.
 */
export function serveAgent(
  open: (spec: AgentSpec) => AgentClient,
  outcomeOf: (error: unknown) => Outcome = () => 'failed',
): void {
  const spec: AgentSpec = JSON.parse(process.argv[2] ?? '{}')
  let client: AgentClient | undefined

  const realNow = Date.now.bind(Date)
  let clockOffsetMs = 0
  Date.now = () => realNow() + clockOffsetMs

  const delayMs = measureDelay()

  const settle = async (call: Call): Promise<void> => {
    const startedAt = performance.now()
    const delayAtStart = delayMs()
    const abort = new AbortController()
    const timer =
      call.abortAfterMs !== undefined && setTimeout(() => abort.abort(), call.abortAfterMs)
    const progressKeys: string[] = []
    let report: Pick<Settlement, 'outcome' | 'answer' | 'error'>
    try {
      client ??= open(spec)
      const onProgress = (message: unknown): void => void progressKeys.push(String(message))
      const result = await client.call(call, { signal: abort.signal, onProgress })
      report = { outcome: 'executed', answer: answerIn(result) }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? `${String(error.code)}: ` : ''
      report = { outcome: outcomeOf(error), error: `${code}${String(error)}` }
    }
    if (timer) clearTimeout(timer)
    const lagMs = delayMs() - delayAtStart
    const ms = performance.now() - startedAt
    send({ type: 'settled', settlement: { ...report, progressKeys, key: call.key, ms, lagMs } })
  }

  const atStart = holdings()
  const close = async (): Promise<void> => {
    const closing = client
    client = undefined
    await closing?.close().catch(() => {}) // the checks find what it leaves
    const holdsNothing = (): boolean => Object.keys(holdings(atStart).resources).length === 0
    await waitUntil(holdsNothing, RELEASE_MS, delayMs)
    send({ type: 'closed', holdings: holdings(atStart) })
  }

  process.on('message', (message: DriverMessage) => {
    if (message.type === 'call') void settle(message.call)
    else if (message.type === 'jump-clock') clockOffsetMs += message.ms
    else void close()
  })
  process.on('disconnect', () => process.exit())
  send({ type: 'ready' })
}

function send(message: AgentMessage): void {
  process.send?.(message, () => {})
}

function holdings(start: Holdings = { heapBytes: 0, resources: {} }): Holdings {
  globalThis.gc?.()
  const resources: Record<string, number> = {}
  for (const [name, entries] of Map.groupBy(process.getActiveResourcesInfo(), String)) {
    const count = entries.length - (start.resources[name] ?? 0)
    if (name !== 'PipeWrap' && count > 0) resources[name] = count // that is the channel to the driver
  }
  return { heapBytes: process.memoryUsage().heapUsed - start.heapBytes, resources }
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

/** Resolves when the claim is true, or after `ms` plus the delay of the event loop. */
export async function waitUntil(
  isTrue: () => boolean,
  ms: number,
  delayMs: () => number,
): Promise<void> {
  const end = performance.now() - delayMs() + ms
  while (!isTrue() && performance.now() - delayMs() < end) {
    await sleep(20, undefined, { ref: false })
  }
}

/** Finds `{ key, principal }` in the structured content, a content block, or the text of a result. */
function answerIn(value: unknown): Settlement['answer'] {
  if (typeof value === 'string') return answerIn(parseJson(value))
  if (Array.isArray(value)) return value.map(answerIn).find((found) => found !== undefined)
  if (!isRecord(value)) return undefined
  const { key, principal, structuredContent, content, text } = value
  if (typeof key === 'string' && typeof principal === 'string') return { key, principal }
  return answerIn(structuredContent) ?? answerIn(content) ?? answerIn(text)
}

function parseJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' ? value : undefined
  } catch {
    return undefined
  }
}

/** Clients by key, each opened at its first use. After a failure, the next use opens it again. */
export class ClientCache<Client> {
  readonly #opening = new Map<string, Promise<Client>>()

  get(key: string, open: () => Promise<Client>): Promise<Client> {
    const existing = this.#opening.get(key)
    if (existing) return existing
    const opening = open()
    this.#opening.set(key, opening)
    opening.catch(() => this.forget(key, opening))
    return opening
  }

  /** The next use opens a client. Returns false when that has already happened. */
  forget(key: string, opening: Promise<Client>): boolean {
    return this.#opening.get(key) === opening && this.#opening.delete(key)
  }

  async closeAll(close: (client: Client) => Promise<unknown>): Promise<void> {
    const all = [...this.#opening.values()]
    this.#opening.clear()
    await Promise.allSettled(all.map(async (opening) => close(await opening)))
  }
}
