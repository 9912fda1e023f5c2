import { untilAborted } from '@x/internal'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { shortSessionId } from '@x/mcp-transport'
import type { StreamableHttpTransport, TransportError } from '@x/mcp-transport'
import { Deadline } from './deadline.ts'
import { getTransportError, isConnectionFailure } from './errors.ts'
import type { SessionClient } from './session-client.ts'

/** The parts of a transport that a session uses, for servers at a URL and for child processes. */
export interface SessionTransport extends Pick<
  StreamableHttpTransport,
  | 'start'
  | 'send'
  | 'close'
  | 'onclose'
  | 'onerror'
  | 'onmessage'
  | 'sessionId'
  | 'epoch'
  | 'isResumed'
  | 'era'
  | 'protocolVersion'
  | 'setProtocolVersion'
  | 'terminateSession'
  | typeof Symbol.asyncDispose
> {
  /** Why the server does not answer, as far as the transport knows. */
  readonly evidence?: TransportError | undefined
}

/** One MCP session on the server, ready for requests. The session that replaces it is the next generation. */
export interface Generation {
  readonly number: number
  /** An SDK client of its own, because a client that lost its session cannot be connected again (mastra #19862). */
  readonly client: SessionClient
  readonly transport: SessionTransport
  readonly sessionId: string | undefined
  /** The session was resumed from a stored record, without a handshake. */
  readonly isResumed: boolean
  /** Number of calls in flight. */
  inFlight: number
  /** The session replaced a lost one, and no call has succeeded in it. */
  isUnproven: boolean
  /** No store holds the id of the session any more, so this client terminates it when the last call has ended. */
  isAbandoned: boolean
}

export function createGeneration(client: SessionClient, transport: SessionTransport): Generation {
  const { epoch: number = 0, sessionId, isResumed } = transport
  return {
    number,
    client,
    transport,
    sessionId,
    isResumed,
    inFlight: 0,
    isUnproven: false,
    isAbandoned: false,
  }
}

const PING_MS = 2000

/**
 * Sends a `ping`. Returns the reason why the server does not accept requests in this session. Returns undefined if
 * the server answers, even with an error, or is only slow. A ping whose connection fails is repeated once, because
 * after a restart of the server the pool may hold several dead connections.
 */
export async function pingFailure(
  { client }: Generation,
  signal?: AbortSignal,
): Promise<TransportError | undefined> {
  let failure: TransportError | undefined
  for (let attempt = 0; attempt < 2; attempt++) {
    try {
      await client.request({ method: 'ping' }, EmptyResultSchema, {
        timeout: PING_MS,
        ...(signal && { signal }),
      })
      return undefined
    } catch (error) {
      failure = getTransportError(error)
      if (failure?.code !== 'UNREACHABLE' && failure?.code !== 'OUTCOME_UNKNOWN') break
    }
  }
  return isConnectionFailure(failure) || failure?.code === 'SESSION_LOST' ? failure : undefined
}

/** True if either side has closed the connection. */
export function isClosed({ client }: Generation): boolean {
  return client.transport === undefined
}

/** Why the connection was closed, as far as the transport knows. */
export function whyClosed({ transport }: Generation): string {
  return transport.evidence?.message ?? 'the connection was closed'
}

/** Shortened session id for messages. Undefined if the server has no sessions. */
export function shortIdOf({ sessionId }: Generation): string | undefined {
  return sessionId === undefined ? undefined : shortSessionId(sessionId)
}

/** Ignores errors and notifications from now on. Requests in flight still receive their responses. */
export function detach({ client }: Pick<Generation, 'client'>): void {
  client.onerror = ignore
  client.fallbackNotificationHandler = async () => {}
}

function ignore(): void {}

/** Shorter than the limit of `dispose()`, so that time remains to close the connections. */
const TERMINATE_MS = 900

/** Terminates the session on the server within 0.9 s. Never rejects. */
export async function terminateSession(
  transport: SessionTransport,
  session: { log(level: 'warning', message: string, cause: unknown): void },
): Promise<void> {
  using deadline = new Deadline(TERMINATE_MS)
  try {
    await untilAborted(transport.terminateSession(), deadline.signal)
  } catch (error) {
    session.log('warning', 'the session could not be terminated on the server', error)
  }
}
