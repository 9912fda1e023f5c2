import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import type { Generation } from './generation.ts'
import { McpClientError } from './errors.ts'
import type { SessionScope } from './session-scope.ts'

/** Who makes a call of a tool. Handlers get the same object back, so that a question reaches the right person. */
export interface Caller {
  /** Equal for all calls of one person or thread, different for calls of others. */
  readonly owner: string
}

/** A request that is under way, and during which the server may ask for something. */
export interface OpenCall {
  /** `tools/call`, `prompts/get`, … */
  readonly method: string
  /** The name of the tool, for `tools/call`. */
  readonly tool?: string | undefined
  /** As given to `callTool()`. */
  readonly caller?: Caller | undefined
}

/** What is known about the call that a message of the server (a question, a log) belongs to. */
export interface MessageOrigin {
  /**
   * The call that the message belongs to. Undefined where that is not certain: the server did not send the
   * message on the response stream of a call, and several calls of the session can have caused it.
   */
  readonly call: OpenCall | undefined
  /** Whether the server sent the message on the response stream of `call`. */
  readonly isOnCallStream: boolean
  /** The owner of all tool calls of the session so far (`Caller.owner`); undefined where there are several. */
  readonly owner: string | undefined
  /** All calls that are under way in the session. */
  readonly openCalls: readonly OpenCall[]
}

/** A call from its start to its end. */
export class TrackedCall implements OpenCall {
  readonly method: string
  readonly tool: string | undefined
  readonly caller: Caller | undefined
  /** The async context of the caller, for handlers that answer a question of this call. */
  readonly context: AsyncResource = new AsyncResource('McpClientCall')
  /** The session that the call was sent in last. */
  generation: Generation | undefined
  readonly #calls: SessionCalls

  constructor({ method, tool, caller }: OpenCall, calls: SessionCalls) {
    this.method = method
    this.tool = tool
    this.caller = caller
    this.#calls = calls
  }

  /** All that is sent inside counts as part of the call. */
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

/** The call whose response stream delivers what is handled now. Listening streams have none. */
const current = new AsyncLocalStorage<TrackedCall | undefined>()

/** For what serves a whole session: its listening stream must not pass for the stream of one call. */
export function outsideCalls<T>(run: () => T): T {
  return current.getStore() === undefined ? run() : current.run(undefined, run)
}

/**
 * The calls of one scope, and what they say about a message of the server. A message that does not come on
 * the response stream of a call belongs to the only open call, unless another call of the session can have
 * caused it: a call of another owner, or one that ended without the answer of the server and may still run.
 */
export class SessionCalls {
  readonly #isOfOneThread: boolean
  readonly #open = new Set<TrackedCall>()
  /** The session that the fields below are about: the one that was used last. */
  #generation: Generation | undefined
  #owner: string | undefined
  #hasSeveralOwners = false
  /** A call ended without the answer of the server, which may still be busy with it. */
  #hasUnanswered = false

  constructor(scope: SessionScope = {}) {
    this.#isOfOneThread = scope.thread !== undefined || scope.run !== undefined
  }

  /** Whether questions would be attributed to a call of this caller that starts now, and to no other one. */
  isFreeFor(caller: Caller | undefined): boolean {
    if (this.#open.size > 0 || this.#isAmbiguous) return false
    return this.#owner === undefined || this.#owner === ownerOf(caller)
  }

  start(call: OpenCall): TrackedCall {
    const tracked = new TrackedCall(call, this)
    this.#open.add(tracked)
    return tracked
  }

  sent({ method, caller }: TrackedCall, generation: Generation): void {
    if (generation !== this.#generation) {
      this.#generation = generation
      this.#owner = undefined
      // Earlier processes may have used it for anybody, unless it belongs to one thread or run.
      this.#hasSeveralOwners = generation.isResumed && !this.#isOfOneThread
      this.#hasUnanswered = false
    }
    if (method !== 'tools/call') return
    this.#owner ??= ownerOf(caller)
    if (this.#owner !== ownerOf(caller)) this.#hasSeveralOwners = true
  }

  /** The call ended without the answer of the server. */
  unanswered({ generation }: TrackedCall): void {
    if (generation !== undefined && generation === this.#generation) this.#hasUnanswered = true
  }

  ended(call: TrackedCall): void {
    this.#open.delete(call)
  }

  /** For a message that came to this client of the SDK: each session has one of its own. */
  originOf(client: Client): MessageOrigin {
    const openCalls = [...this.#open]
    const owner = this.#hasSeveralOwners ? undefined : this.#owner
    const related = current.getStore()
    if (related !== undefined) return { call: related, isOnCallStream: true, owner, openCalls }
    const [only, another] = openCalls
    const isCertain =
      another === undefined && only?.generation?.client === client && !this.#isAmbiguous
    return { call: isCertain ? only : undefined, isOnCallStream: false, owner, openCalls }
  }

  /** Whether there are calls that could be taken for another one. */
  get #isAmbiguous(): boolean {
    return this.#hasSeveralOwners || this.#hasUnanswered
  }
}

/** Runs a handler in the async context of the call that the question belongs to. */
export function inContextOf<T>({ call }: MessageOrigin, handle: () => T): T {
  return call instanceof TrackedCall ? call.context.runInAsyncScope(handle) : handle()
}

function ownerOf(caller: Caller | undefined): string {
  return caller?.owner ?? ''
}

/** Whether the server may still be busy with a call that failed with this. */
function mayStillRun(error: unknown): boolean {
  if (McpClientError.is(error)) {
    return error.outcome !== 'not-executed' && error.code !== 'INVALID_OUTPUT'
  }
  return !(error instanceof McpError)
}
