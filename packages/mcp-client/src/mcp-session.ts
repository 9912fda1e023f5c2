import { abortReason, readPackageVersion, shortSessionId, untilAborted } from '@x/internal'
import {
  EmptyResultSchema,
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import { getTransportError, isConnectionFailure } from './errors.ts'
import type { McpClientOptions } from './options.ts'
import { resultOf, sendRequest } from './requests.ts'
import type { ServerConnection } from './requests.ts'

const CLIENT_INFO = { name: 'mcp-client', version: readPackageVersion(import.meta.url) }
/** Limit of one ping, in milliseconds. */
const PING_MS = 2000
/** Number of calls that are sent at once while it is unknown whether the session still exists. */
const FIRST_CALLS = 64
/** Longest time that further calls wait for the result of one of them, in milliseconds. */
const HOLD_MS = 200

/** The calls that wait at a closed gate share one promise. */
interface HeldCalls {
  readonly released: Promise<void>
  readonly release: () => void
}

/**
 * One session on the server. The session that replaces it has another `epoch`.
 *
 * It has a gate, which is closed while it is unknown whether the session still exists: before the first call of a
 * resumed session, and after a time without calls. A closed gate lets 64 calls of a burst through. The others wait until
 * one of the 64 has ended, so that a lost session costs at most 64 refused requests and one handshake; else every call of
 * the burst would be sent twice. A call that waits was not sent. The gate does not limit concurrency: a call waits at most
 * 200 ms, and once open, the gate stays open until no call is in flight.
 */
export class McpSession {
  readonly connection: ServerConnection
  /** Number of the session with this server, also over processes if the store outlives them. */
  readonly epoch: number
  readonly id: string | undefined
  /** The session was resumed from a stored record, without a handshake. */
  readonly isResumed: boolean
  /** The session replaced a lost one, and no call has succeeded in it. */
  isUnproven = false
  #inFlight = 0
  #gate: 'open' | 'closed' | HeldCalls
  #checking: Promise<void> | undefined

  /** @param connection a connection with an open session */
  constructor(connection: ServerConnection) {
    const { epoch = 0, sessionId, isResumed } = connection
    this.connection = connection
    this.epoch = epoch
    this.id = sessionId
    this.isResumed = isResumed
    this.#gate = isResumed ? 'closed' : 'open'
  }

  /** Shortened id for messages. Undefined if the server has no sessions. */
  get shortId(): string | undefined {
    return this.id === undefined ? undefined : shortSessionId(this.id)
  }

  /** True if the next call must wait. Only a session with an id can be lost: child processes have none. */
  get isHolding(): boolean {
    return this.id !== undefined && this.#gate !== 'open' && this.#inFlight >= FIRST_CALLS
  }

  /**
   * Waits until the gate opens. Call it at most once per call, so that the limit of 200 ms holds.
   *
   * @throws the reason of `signal`
   */
  released(signal: AbortSignal): Promise<void> {
    if (this.#gate === 'open') return Promise.resolve()
    if (this.#gate === 'closed') this.#gate = this.#hold()
    return untilAborted(this.#gate.released, signal)
  }

  /** A call is about to be sent. */
  enter(): void {
    this.#inFlight++
  }

  /** A call has ended, with or without success. */
  leave(): void {
    this.#setGate(--this.#inFlight === 0 ? 'closed' : 'open')
  }

  #setGate(gate: 'open' | 'closed'): void {
    const before = this.#gate
    this.#gate = gate
    if (typeof before === 'object') before.release()
  }

  #hold(): HeldCalls {
    let resolve: (() => void) | undefined
    const released = new Promise<void>((done) => (resolve = done))
    let immediate: NodeJS.Immediate | undefined
    const timer = setTimeout(() => {
      // Lets the event loop read responses that arrived while this thread was busy.
      immediate = setImmediate(() => this.#setGate('open'))
    }, HOLD_MS).unref()
    const release = (): void => {
      clearTimeout(timer)
      clearImmediate(immediate)
      resolve?.()
    }
    return { released, release }
  }

  /**
   * Returns the loss of this session, but no longer as certain if the session itself replaced a lost one and has not
   * answered any call. A tool that answers an empty 404 after it has run looks the same on every attempt. A refusal that
   * names the session does not come from a tool.
   */
  assess(loss: TransportError): TransportError {
    const wasSent = loss.status !== undefined
    if (loss.certain !== true || loss.isNamed || !wasSent || !this.isUnproven) return loss
    const message = `${loss.message}, although the session was opened just before`
    return loss.with({ message, certain: false, outcome: 'unknown' })
  }

  /** @throws as `sendRequest()` */
  async ping(): Promise<void> {
    const schema = EmptyResultSchema
    await sendRequest(this.connection, { method: 'ping' }, { schema, timeout: PING_MS })
  }

  /**
   * Pings the server. All requests that wait for the answer share it.
   *
   * @throws TransportError if the server does not accept requests in this session: the waiting requests were not sent
   */
  check(): Promise<void> {
    return (this.#checking ??= this.#check().finally(() => (this.#checking = undefined)))
  }

  async #check(): Promise<void> {
    const failure = await this.#pingFailure()
    if (failure === undefined) return
    if (failure.code === 'SESSION_LOST') {
      // The requests themselves were not sent, so they can go to a new session.
      throw failure.with({ certain: true, outcome: 'not-executed', status: undefined })
    }
    const message =
      'The server did not answer a ping after a connection problem: the request was not sent'
    throw new TransportError('UNREACHABLE', message, { cause: failure, url: failure.url })
  }

  /**
   * Returns why the server does not accept requests in this session. Undefined if it answers, even with an error, or is
   * only slow. A ping whose connection fails is repeated once, because after a restart of the server the pool may hold
   * several dead connections.
   */
  async #pingFailure(): Promise<TransportError | undefined> {
    let failure: TransportError | undefined
    for (let attempt = 0; attempt < 2; attempt++) {
      try {
        await this.ping()
        return undefined
      } catch (error) {
        failure = getTransportError(error)
        if (failure?.code !== 'UNREACHABLE' && failure?.code !== 'OUTCOME_UNKNOWN') break
      }
    }
    return isConnectionFailure(failure) || failure?.code === 'SESSION_LOST' ? failure : undefined
  }
}

/**
 * Sends `initialize` and `notifications/initialized`, or nothing if a stored session is resumed.
 *
 * @throws TransportError without an answer; the SDK's `McpError` for an error of the server; the reason of `signal`
 */
export async function shakeHands(
  connection: ServerConnection,
  {
    capabilities,
    clientInfo = CLIENT_INFO,
  }: Pick<McpClientOptions, 'clientInfo'> & { readonly capabilities: ClientCapabilities },
  signal: AbortSignal,
): Promise<void> {
  const params = { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities, clientInfo }
  const answer = await connection.open(params, { signal })
  if (answer === undefined) throw abortReason(signal)
  const { protocolVersion } = InitializeResultSchema.parse(resultOf(answer))
  if (!SUPPORTED_PROTOCOL_VERSIONS.includes(protocolVersion)) {
    throw new Error(`Server's protocol version is not supported: ${protocolVersion}`)
  }
  await connection.notify({ jsonrpc: '2.0', method: 'notifications/initialized' })
}
