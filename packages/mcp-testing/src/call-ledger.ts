import type { Mutable, WaitForOptions } from './recording.ts'
import { Recording } from './recording.ts'

/** Where a `tools/call` is on its way through a server. */
export type CallState =
  | 'received' // it reached the server; its tool has not started
  | 'running'
  | 'answered' // the tool returned, also with `isError`
  | 'asked' // the tool ended with `input_required`: one round of a call, not an execution
  | 'failed' // the tool threw
  | 'cancelled' // the client cancelled the call, or left, or the server restarted

/** One `tools/call` that reached a server. */
export interface LedgerEntry {
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  /** The argument `key`, else `key` in `_meta`, if it is a string. Names the call of a test. */
  readonly key: string | undefined
  /** The bearer token of the request: in a test, the token names the user. */
  readonly principal: string | undefined
  readonly sessionId: string | undefined
  readonly era: 'legacy' | 'modern'
  readonly state: CallState
  /** The tool has started, and did not end by asking for input. */
  readonly executed: boolean
}

/** Entries to look at: those that equal every property that is set. A string is the name of a tool. */
export type CallFilter =
  | string
  | { readonly [Name in Exclude<keyof LedgerEntry, 'args'>]?: LedgerEntry[Name] | undefined }

/**
 * Counts what servers execute: one entry for each `tools/call` that reached one. Several servers may
 * share a ledger.
 *
 * @example
 * ```ts
 * import { CallLedger, startLegacyServer } from '@x/mcp-testing'
 *
 * const ledger = new CallLedger()
 * await using server = await startLegacyServer({ ledger })
 * // … calls …
 * ledger.executions('cart_add') // how often it ran
 * ```
 */
export class CallLedger {
  readonly #recording = new Recording<Mutable<LedgerEntry>>('calls in the ledger')
  /** Makes a lookup by key fast in a ledger of 100,000 calls. */
  readonly #byKey = new Map<string, LedgerEntry[]>()

  /** In the order of arrival. */
  get entries(): readonly LedgerEntry[] {
    return this.#recording.entries
  }

  /** Entries that match. */
  find(filter: CallFilter = {}): readonly LedgerEntry[] {
    const key = typeof filter === 'string' ? undefined : filter.key
    const entries = key === undefined ? this.entries : (this.#byKey.get(key) ?? [])
    return entries.filter((entry) => matchesFilter(entry, filter))
  }

  /** Number of calls that reached a server, executed or not. */
  received(filter: CallFilter = {}): number {
    return this.find(filter).length
  }

  /** Number of calls whose tool started. Rounds that only asked for input do not count. */
  executions(filter: CallFilter = {}): number {
    return this.find(filter).filter((entry) => entry.executed).length
  }

  /** The first entry that matches, as soon as there is one. Looks again when a state changes. */
  waitFor(
    filter: CallFilter | ((entry: LedgerEntry) => boolean),
    options?: WaitForOptions,
  ): Promise<LedgerEntry> {
    const matches =
      typeof filter === 'function'
        ? filter
        : (entry: LedgerEntry): boolean => matchesFilter(entry, filter)
    return this.#recording.waitFor(matches, options)
  }

  /** Rejects every wait. A server closes its own ledger; close a shared one after the servers. */
  close(): void {
    this.#recording.close()
  }

  /** Adds a call that has arrived. Servers call this. */
  receive(
    call: Pick<LedgerEntry, 'tool' | 'args' | 'era'> &
      Partial<Pick<LedgerEntry, 'principal' | 'sessionId'>> & { meta?: unknown },
  ): LedgerEntry {
    const { principal, sessionId, meta, ...rest } = call
    const inMeta = typeof meta === 'object' && meta !== null && 'key' in meta ? meta.key : undefined
    const key = [call.args['key'], inMeta].find((value) => typeof value === 'string')
    const of = { key, principal, sessionId }
    const entry: LedgerEntry = { ...rest, ...of, state: 'received', executed: false }
    if (key !== undefined) {
      const others = this.#byKey.get(key)
      if (others === undefined) this.#byKey.set(key, [entry])
      else others.push(entry)
    }
    this.#recording.add(entry)
    return entry
  }

  /** Moves a call on. Does nothing when the call has ended. Servers call this. */
  advance(entry: LedgerEntry, state: CallState): void {
    if (entry.state !== 'received' && entry.state !== 'running') return
    const own: Mutable<LedgerEntry> = entry
    own.state = state
    own.executed = state === 'running' || (own.executed && state !== 'asked')
    this.#recording.changed(own)
  }

  /** Runs a tool, and records how it ends. Servers call this. */
  async run<Result extends object>(
    entry: LedgerEntry,
    signal: AbortSignal,
    tool: () => Result | Promise<Result>,
  ): Promise<Result> {
    const cancel = (): void => this.advance(entry, 'cancelled')
    if (signal.aborted) cancel()
    signal.addEventListener('abort', cancel, { once: true })
    this.advance(entry, 'running')
    try {
      const result = await tool()
      const asked = 'resultType' in result && result.resultType === 'input_required'
      this.advance(entry, asked ? 'asked' : 'answered')
      return result
    } catch (error) {
      this.advance(entry, 'failed')
      throw error
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }
}

function matchesFilter(entry: LedgerEntry, filter: CallFilter): boolean {
  const wanted = typeof filter === 'string' ? { tool: filter } : filter
  return (Object.keys(wanted) as (keyof typeof wanted)[]).every(
    (name) => wanted[name] === undefined || wanted[name] === entry[name],
  )
}
