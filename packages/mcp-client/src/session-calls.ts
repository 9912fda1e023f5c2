import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { removeFrom } from '@x/internal'
import type { Generation } from './generation.ts'
import { McpClientError } from './errors.ts'
import type { OperationName } from './errors.ts'
import type { SessionScope } from './session-scope.ts'

/** The person or thread that makes a tool call. Handlers receive the same object, so that they ask the right person. */
export interface Caller {
  /** Equal for all calls of one person or thread, different for calls of others. */
  readonly owner: string
}

/** A request in progress, during which the server may send requests to the client. */
export interface OpenCall extends OperationName {
  /** The option `caller` of `callTool()`. */
  readonly caller?: Caller | undefined
}

/** The call that caused a message of the server, such as an elicitation or a log message, as far as it is known. */
export interface MessageOrigin {
  /**
   * The call that caused the message. Undefined if that is uncertain: the server did not send the message on the
   * response stream of a call, and several calls of the session may have caused it.
   */
  readonly call: OpenCall | undefined
  /** True if the server sent the message on the response stream of `call`. */
  readonly isOnCallStream: boolean
  /** Owner of all tool calls of the session so far (`Caller.owner`). Undefined if there are several. */
  readonly owner: string | undefined
  /** All calls in progress in the session. */
  readonly openCalls: readonly OpenCall[]
}

/** A call from its start to its end. */
export class TrackedCall implements OpenCall {
  readonly method: string
  readonly tool: string | undefined
  readonly caller: Caller | undefined
  /** Async context of the caller, for handlers that answer requests of the server for this call. */
  readonly context: AsyncResource = new AsyncResource('McpClientCall')
  /** The generation in which the call was last sent. */
  generation: Generation | undefined
  readonly #calls: SessionCalls

  constructor({ method, tool, caller }: OpenCall, calls: SessionCalls) {
    this.method = method
    this.tool = tool
    this.caller = caller
    this.#calls = calls
  }

  /** Messages on the response stream of a request that `send` makes belong to this call. */
  run<T>(send: () => T): T {
    return current.run(this, send)
  }

  sentIn(generation: Generation): void {
    this.generation = generation
    this.#calls.sent(this, generation)
  }

  failed(error: unknown): void {
    if (mayStillRun(error)) this.#calls.unanswered(this)
  }

  end(): void {
    this.#calls.ended(this)
  }
}

/** The call whose response stream delivers the current message. Undefined for messages of listening streams. */
const current = new AsyncLocalStorage<TrackedCall | undefined>()

/** For requests that serve the whole session: their streams must not count as the response stream of one call. */
export function outsideCalls<T>(run: () => T): T {
  return current.getStore() === undefined ? run() : current.run(undefined, run)
}

/**
 * Attributes messages of the server to the calls of one scope. A message outside of a response stream belongs to the
 * only call in progress, unless another call of the session may have caused it: a call of another owner, or a call
 * that ended without a response and may still run on the server.
 */
export class SessionCalls {
  readonly #isOfOneThread: boolean
  readonly #open: TrackedCall[] = []
  /** The generation that was used last. The fields below describe it. */
  #generation: Generation | undefined
  #owner: string | undefined
  #hasSeveralOwners = false
  /** A call ended without a response and may still run on the server. */
  #hasUnanswered = false

  constructor(scope: SessionScope = {}) {
    this.#isOfOneThread = scope.thread !== undefined || scope.run !== undefined
  }

  /** True if requests of the server could be attributed with certainty to a call of this caller that starts now. */
  isFreeFor(caller: Caller | undefined): boolean {
    if (this.#open.length > 0 || this.#isAmbiguous) return false
    return this.#owner === undefined || this.#owner === ownerOf(caller)
  }

  start(call: OpenCall): TrackedCall {
    const tracked = new TrackedCall(call, this)
    this.#open.push(tracked)
    return tracked
  }

  sent({ method, caller }: TrackedCall, generation: Generation): void {
    if (generation !== this.#generation) {
      this.#generation = generation
      this.#owner = undefined
      // Earlier processes may have used the session for several callers, unless it belongs to one thread or run.
      this.#hasSeveralOwners = generation.isResumed && !this.#isOfOneThread
      this.#hasUnanswered = false
    }
    if (method !== 'tools/call') return
    this.#owner ??= ownerOf(caller)
    if (this.#owner !== ownerOf(caller)) this.#hasSeveralOwners = true
  }

  /** Records that a call ended without a response. */
  unanswered({ generation }: TrackedCall): void {
    if (generation !== undefined && generation === this.#generation) this.#hasUnanswered = true
  }

  ended(call: TrackedCall): void {
    removeFrom(this.#open, call)
  }

  /**
   * Returns the origin of a message that the client received now.
   *
   * @param generation The current generation. A message outside of response streams comes from its session.
   */
  originOf(generation: Generation | undefined): MessageOrigin {
    const openCalls = [...this.#open]
    const owner = this.#hasSeveralOwners ? undefined : this.#owner
    const related = current.getStore()
    if (related !== undefined) return { call: related, isOnCallStream: true, owner, openCalls }
    const [only, another] = openCalls
    const isAlone = only !== undefined && another === undefined && !this.#isAmbiguous
    const isCertain = isAlone && generation !== undefined && only.generation === generation
    return { call: isCertain ? only : undefined, isOnCallStream: false, owner, openCalls }
  }

  /** True if other calls than the one in progress may cause messages. */
  get #isAmbiguous(): boolean {
    return this.#hasSeveralOwners || this.#hasUnanswered
  }
}

/** Runs a handler in the async context of the call that caused the request. */
export function inContextOf<T>({ call }: MessageOrigin, handle: () => T): T {
  return call instanceof TrackedCall ? call.context.runInAsyncScope(handle) : handle()
}

function ownerOf(caller: Caller | undefined): string {
  return caller?.owner ?? ''
}

/** True if the server may still run a call that failed with this error. */
function mayStillRun(error: unknown): boolean {
  if (McpClientError.is(error)) {
    return error.outcome !== 'not-executed' && error.code !== 'INVALID_OUTPUT'
  }
  return !(error instanceof McpError)
}
