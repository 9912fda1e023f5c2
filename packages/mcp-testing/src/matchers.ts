import './runtime-check.ts' // stays the first import
import type { CallFilter, CallLedger } from './call-ledger.ts'

/** A ledger, or a server that has one. */
export type WithLedger = CallLedger | { readonly ledger: CallLedger }

/** A server, a recording proxy, or a mark of one. */
export type WithRequests =
  | { readonly received: readonly { readonly rpcMethod?: string | undefined }[] }
  | { count(filter: { readonly rpcMethod: string }): number }

/** Types of {@link matchers}, to extend the interface of the test runner with. */
export interface McpMatchers<Result = void> {
  /** The server executed such calls; with `times`, exactly so many. */
  toHaveExecuted(calls: CallFilter, options?: { readonly times?: number | undefined }): Result
  /** The server executed the call with this key once. */
  toHaveExecutedOnce(key: string): Result
  /** The server or proxy received so many `initialize` requests. */
  toHaveInitialized(times: number): Result
}

/** Result of a matcher, for `expect.extend`. */
export interface MatcherResult {
  readonly pass: boolean
  readonly message: () => string
}

/** Part of the state that test runners give to matchers. */
export interface MatcherState {
  readonly isNot?: boolean | undefined
}

/** For `expect.extend(matchers)` of vitest, Jest, and runners with the same interface. */
export const matchers: {
  toHaveExecuted(
    this: MatcherState | void,
    actual: WithLedger,
    calls: CallFilter,
    options?: { readonly times?: number | undefined },
  ): MatcherResult
  toHaveExecutedOnce(this: MatcherState | void, actual: WithLedger, key: string): MatcherResult
  toHaveInitialized(this: MatcherState | void, actual: WithRequests, times: number): MatcherResult
} = {
  toHaveExecuted(actual, calls, { times } = {}) {
    return executed(this, ledgerOf(actual), { calls, times })
  },
  toHaveExecutedOnce(actual, key) {
    return executed(this, ledgerOf(actual), { calls: { key }, times: 1 })
  },
  toHaveInitialized(actual, times) {
    const count =
      'received' in actual
        ? actual.received.filter(({ rpcMethod }) => rpcMethod === 'initialize').length
        : actual.count({ rpcMethod: 'initialize' })
    return {
      pass: count === times,
      message: () =>
        `Expected ${not(this)}${number(times, 'initialize request')}, but there were ${count}.`,
    }
  },
}

function executed(
  state: MatcherState | void,
  ledger: CallLedger,
  { calls, times }: { readonly calls: CallFilter; readonly times: number | undefined },
): MatcherResult {
  const count = ledger.executions(calls)
  const name = typeof calls === 'string' ? calls : JSON.stringify(calls)
  const wanted = times === undefined ? 'executions' : number(times, 'execution')
  return {
    pass: times === undefined ? count > 0 : count === times,
    message: () =>
      `Expected ${not(state)}${wanted} of ${name}, but there were ${count}.\n\n` + callsIn(ledger),
  }
}

/** Calls in the order of arrival, equal ones counted together. */
function callsIn(ledger: CallLedger): string {
  const counts = new Map<string, number>()
  for (const { tool, key, principal, state, executed: ran } of ledger.entries) {
    const named = [tool, key && `key ${key}`, principal && `by ${principal}`].filter(Boolean)
    const line = `${named.join(', ')}: ${ran ? 'executed' : 'not executed'} (${state})`
    counts.set(line, (counts.get(line) ?? 0) + 1)
  }
  if (counts.size === 0) return 'No tools/call reached the server.'
  const lines = Array.from(counts, ([line, count]) => `  ${count} x ${line}`)
  const shown = lines.slice(0, MAX_LINES)
  if (lines.length > shown.length) shown.push(`  and ${lines.length - shown.length} other kinds`)
  return `Calls that reached the server:\n${shown.join('\n')}`
}

const MAX_LINES = 20

function ledgerOf(actual: WithLedger): CallLedger {
  return 'ledger' in actual ? actual.ledger : actual
}

function not(state: MatcherState | void): string {
  return state?.isNot === true ? 'not ' : ''
}

function number(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
