import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { EmptyResultSchema } from '@modelcontextprotocol/sdk/types.js'
import type { ClientCapabilities } from '@modelcontextprotocol/sdk/types.js'
import { shortSessionId } from '@x/mcp-transport'
import type { TransportError } from '@x/mcp-transport'
import { installHandlers } from '../client-handlers.ts'
import type { AskedSession, ClientHandlers } from '../client-handlers.ts'
import { LONGEST_MS } from '../deadline.ts'
import { failureFrom, isTrouble } from '../failure.ts'
import { sharedValidator } from '../operations/output-validator.ts'
import { hearNews, ignoreNews } from '../server-news.ts'
import type { ServerNews } from '../server-news.ts'
import { outsideCalls } from '../session-calls.ts'
import { SessionClient } from './session-client.ts'
import type { SessionTransport } from './session-transport.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'

/** One session with the server, ready for requests. Immutable: a later session is another epoch. */
export interface Epoch {
  readonly number: number
  readonly client: Client
  readonly transport: SessionTransport
  readonly sessionId: string | undefined
  /** Went on from a stored record, without a handshake. */
  readonly isResumed: boolean
}

export interface OpenEpochOptions {
  readonly transport: SessionTransport
  readonly clientInfo: { readonly name: string; readonly version: string }
  readonly signal: AbortSignal
  readonly capabilities: ClientCapabilities
  readonly handlers: ClientHandlers
  /** What handlers are told about it. */
  readonly asked: AskedSession
  readonly news: ServerNews
  /** Told of a session that nobody will use, before its connection is closed. */
  readonly discard: (transport: SessionTransport) => Promise<void>
  /** Trouble that belongs to no request. */
  readonly onError: (error: Error) => void
}

/**
 * Phase 2: the MCP handshake over what phase 1 has made, two small requests on connections that are
 * open already; or none at all where a stored session goes on. A client is made for each, because one
 * that has lost its session cannot be connected again in place (mastra #19862).
 */
export async function openEpoch(options: OpenEpochOptions): Promise<Epoch> {
  const { transport, clientInfo, capabilities, handlers, signal, news, onError } = options
  const client = new SessionClient(clientInfo, {
    capabilities,
    jsonSchemaValidator: sharedValidator,
  })
  client.onerror = onError
  installHandlers(client, handlers, options.asked)
  hearNews(client, news)
  try {
    const connecting = outsideCalls(() =>
      client.connect(transport, { signal, timeout: LONGEST_MS }),
    )
    // The SDK lets `initialize` be aborted, but not `notifications/initialized`.
    await settledOrAborted(connecting, signal)
  } catch (error) {
    client.onerror = ignore // what follows from closing it is no news
    await options.discard(transport)
    await client.close()
    await transport.close() // the SDK may have begun to close it, without waiting for the end
    throw error
  }
  const { epoch: number = 0, sessionId, isResumed } = transport
  return { number, client, transport, sessionId, isResumed }
}

const PING_MS = 2000

/**
 * Sends a `ping`. Resolves with the reason why the server does not take requests in this session; with nothing
 * when it answers, also with an error, or when it is only slow. A ping that fails on its connection is repeated
 * once: after a restart of the server, the pool may hold several connections that are dead.
 */
export async function pingFailure(
  { client }: Epoch,
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
      failure = failureFrom(error)
      if (failure?.code !== 'UNREACHABLE' && failure?.code !== 'OUTCOME_UNKNOWN') break
    }
  }
  return isTrouble(failure) || failure?.code === 'SESSION_LOST' ? failure : undefined
}

/** Whether the connection is over, by whichever side. */
export function isClosed({ client }: Epoch): boolean {
  return client.transport === undefined
}

/** Why, as far as the transport knows. */
export function whyClosed({ transport }: Epoch): string {
  return transport.evidence?.message ?? 'the connection has ended'
}

/** Its session id as it may be shown; undefined where the server has no sessions. */
export function shortIdOf({ sessionId }: Epoch): string | undefined {
  return sessionId === undefined ? undefined : shortSessionId(sessionId)
}

/** From now on only what was asked of it is answered: late news of an old session would be about nothing. */
export function retireEpoch({ client }: Epoch): void {
  client.onerror = ignore
  ignoreNews(client)
}

function ignore(): void {}
