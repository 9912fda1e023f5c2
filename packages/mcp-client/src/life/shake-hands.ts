import { TransportError } from '@x/mcp-transport'
import { capabilitiesOf } from '../client-handlers.ts'
import type { ScopedOptions } from '../client-options.ts'
import { Deadline } from '../deadline.ts'
import { openingErrorFrom } from '../failure.ts'
import type { ServerNews } from '../server-news.ts'
import type { Connection } from './connection.ts'
import { isClosed, openEpoch, pingFailure, retireEpoch, whyClosed } from './epoch.ts'
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

/** Sessions of other processes that are tried in place of a lost one. */
const MAX_TAKEN_OVER = 3

/**
 * Opens a session that is ready for calls, within `handshakeMs`: the handshake, and what a new session must be
 * told. In place of a lost session, the session that another process has stored meanwhile is used if it answers a
 * `ping`: the server may have forgotten that session too, and then no call needs to meet the loss.
 *
 * @throws McpClientError with `outcome: 'not-executed'`; the SDK's `McpError` where the server answered with
 * an error; the reason of `signal`
 */
export async function shakeHands(setup: ShakeHandsOptions): Promise<Epoch> {
  const { handshakeMs = HANDSHAKE_MS } = setup.options
  using deadline = new Deadline(handshakeMs, setup.signal)
  for (let takenOver = 0; ; takenOver++) {
    const epoch = await attempt(setup, deadline.signal, takenOver < MAX_TAKEN_OVER)
    if (epoch !== undefined) return epoch
  }
}

/** Returns undefined if the server has forgotten the stored session. */
async function attempt(
  setup: ShakeHandsOptions,
  limit: AbortSignal,
  isChecked: boolean,
): Promise<Epoch | undefined> {
  const { connection, options, server, news, calls, succession, restore, discard, log } = setup
  const { clientInfo = CLIENT_INFO, handlers = {} } = options
  const transport = connection.createTransport()
  try {
    const epoch = await openEpoch({
      transport,
      clientInfo,
      capabilities: capabilitiesOf(handlers, options.capabilities),
      handlers,
      asked: { scope: options.scope, server, calls },
      signal: limit,
      discard,
      news,
      onError: (error) => log('warning', error.message, error),
    })
    const isTakenOver = succession.loss !== undefined && epoch.isResumed
    if (isChecked && isTakenOver && epoch.sessionId !== undefined) {
      const failure = await pingFailure(epoch, limit)
      if (failure !== undefined) {
        retireEpoch(epoch)
        await epoch.client.close()
        if (failure.code === 'SESSION_LOST') return undefined
        throw failure
      }
    }
    if (!succession.isContinuedBy(epoch)) {
      await restore(epoch, limit).catch((error: unknown) => {
        log('warning', 'the new session was not told everything again', error)
      })
    }
    if (isClosed(epoch)) throw new TransportError('UNREACHABLE', whyClosed(epoch))
    return epoch
  } catch (error) {
    const { evidence } = transport
    const { loss } = succession
    throw openingErrorFrom(error, { server, signal: limit, loss, evidence })
  }
}
