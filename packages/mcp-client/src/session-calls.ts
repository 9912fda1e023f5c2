import { AsyncResource } from 'node:async_hooks'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { BoundedMap, removeFrom } from '@x/internal'
import type { McpSession } from './mcp-session.ts'
import { McpClientError } from './errors.ts'
import type { InputFailure, OperationName } from './errors.ts'

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
   * The call on whose response stream the server sent the message; without such a stream, the only call in progress in
   * the session. Undefined if the message may belong to another call.
   */
  readonly call: OpenCall | undefined
  /** Calls that may have caused it: those in progress, and those of other callers that ended without an answer. */
  readonly openCalls: readonly OpenCall[]
}

/** A call from its start to its end. */
export class TrackedCall implements OpenCall {
  readonly method: string
  readonly tool: string | undefined
  readonly caller: Caller | undefined
  /** Async context of the caller, for handlers that answer requests of the server for this call. */
  readonly context: AsyncResource = new AsyncResource('McpClientCall')
  /** The session in which the call was last sent. */
  session: McpSession | undefined
  /** Why a handler could not answer the server during this attempt. */
  inputFailure: InputFailure | undefined

  constructor({ method, tool, caller }: OpenCall) {
    this.method = method
    this.tool = tool
    this.caller = caller
  }
}

/** Number of callers whose unanswered calls are remembered. */
const MAX_UNANSWERED = 1000

/** Attributes messages of the server to the calls of one scope. */
export class SessionCalls {
  readonly #open: TrackedCall[] = []
  /** The session that was used last. */
  #session: McpSession | undefined
  /** By owner, calls of that session that ended without a response, and may still run on the server. */
  readonly #unanswered = new BoundedMap<string, OpenCall>(MAX_UNANSWERED)

  start(call: OpenCall): TrackedCall {
    const tracked = new TrackedCall(call)
    this.#open.push(tracked)
    return tracked
  }

  sent(call: TrackedCall, session: McpSession): void {
    call.session = session
    call.inputFailure = undefined
    if (session === this.#session) return
    this.#session = session
    this.#unanswered.clear()
  }

  /** Records that a call has failed: the server may still run it. */
  failed({ session, method, tool, caller }: TrackedCall, error: unknown): void {
    if (session === undefined || session !== this.#session || !mayStillRun(error)) return
    this.#unanswered.set(ownerOf(caller), { method, tool, caller })
  }

  end(call: TrackedCall): void {
    removeFrom(this.#open, call)
  }

  /**
   * Returns the origin of a message that the client received now.
   *
   * @param related The call whose response stream delivered the message. Undefined for one of a listening stream
   * @param session The current session. A message outside of response streams comes from its session.
   */
  originOf(related: TrackedCall | undefined, session: McpSession | undefined): MessageOrigin {
    const owners = new Set(this.#open.map(({ caller }) => ownerOf(caller)))
    const stopped = [...this.#unanswered.values()].filter(
      ({ caller }) => !owners.has(ownerOf(caller)),
    )
    const openCalls = [...this.#open, ...stopped]
    if (related !== undefined) return { call: related, openCalls }
    const [only] = this.#open
    const isSent = session !== undefined && only?.session === session
    return { call: isSent && openCalls.length === 1 ? only : undefined, openCalls }
  }
}

/** Returns why a message belongs to no call for certain. */
export function whyUnknown({ openCalls: { length } }: MessageOrigin): string {
  const others =
    length < 2 ? 'no call is open in its session' : `${length} calls may have caused it`
  return `it is not on the response stream of a call, and ${others}`
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
