import { TransportError } from '@x/mcp-transport'
import { capabilitiesOf } from '../client-handlers.ts'
import type { ScopedOptions } from '../client-options.ts'
import { Deadline } from '../deadline.ts'
import { openingErrorFrom } from '../failure.ts'
import type { ServerNews } from '../server-news.ts'
import type { Connection } from './connection.ts'
import { isClosed, openEpoch, whyClosed } from './epoch.ts'
import type { Epoch } from './epoch.ts'
import type { SessionCalls } from '../session-calls.ts'
import type { SessionTransport } from './session-transport.ts'
import type { Succession } from './succession.ts'

export interface ShakeHandsOptions {
  readonly connection: Connection
  readonly options: ScopedOptions
  /** How messages name the server. */
  readonly server: string
  /** Told what the server says on its own. */
  readonly news: ServerNews
  /** Says which call a question of the server belongs to. */
  readonly calls: SessionCalls | undefined
  readonly succession: Succession
  /** What a session that was opened anew must be told before it is used. */
  readonly restore: (epoch: Epoch, signal: AbortSignal) => Promise<void>
  /** Told of a session that nobody will use, before its connection is closed. */
  readonly discard: (transport: SessionTransport) => Promise<void>
  readonly signal: AbortSignal
  readonly log: (level: 'warning', what: string, cause: unknown) => void
}

const CLIENT_INFO = { name: 'mcp-client', version: '0.1.0' }
const HANDSHAKE_MS = 30_000

/**
 * One attempt at a session, ready for calls: the handshake, and what a new session must be told. Within
 * `handshakeMs`.
 *
 * @throws McpClientError with `outcome: 'not-executed'`; the SDK's `McpError` where the server answered with
 * an error; the reason of `signal`
 */
export async function shakeHands(setup: ShakeHandsOptions): Promise<Epoch> {
  const { connection, options, server, news, calls, succession, restore, discard, signal, log } =
    setup
  const { clientInfo = CLIENT_INFO, handshakeMs = HANDSHAKE_MS, handlers = {} } = options
  using deadline = new Deadline(handshakeMs, signal)
  const transport = connection.createTransport()
  try {
    const epoch = await openEpoch({
      transport,
      clientInfo,
      capabilities: capabilitiesOf(handlers, options.capabilities),
      handlers,
      asked: { scope: options.scope, server, calls },
      signal: deadline.signal,
      discard,
      news,
      onError: (error) => log('warning', error.message, error),
    })
    if (!succession.isContinuedBy(epoch)) {
      await restore(epoch, deadline.signal).catch((error: unknown) => {
        log('warning', 'the new session was not told everything again', error)
      })
    }
    if (isClosed(epoch)) throw new TransportError('UNREACHABLE', whyClosed(epoch))
    return epoch
  } catch (error) {
    const { evidence } = transport
    const { loss } = succession
    throw openingErrorFrom(error, { server, signal: deadline.signal, loss, evidence })
  }
}
