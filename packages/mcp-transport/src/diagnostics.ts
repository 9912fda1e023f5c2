import { channel } from 'node:diagnostics_channel'
import type { Channel } from 'node:diagnostics_channel'
import type { Era } from './session-record.ts'

/** What happened to a session. Ids are shortened. */
export interface SessionEvent {
  readonly type: 'opened' | 'resumed' | 'lost' | 'ended'
  /** Endpoint without query. */
  readonly url: string
  readonly era: Era
  /** `SessionRecord.epoch` */
  readonly epoch: number
  readonly sessionId?: string | undefined
}

/** One `ExchangeEvent` for each HTTP exchange that has ended, of every transport in the process. */
export const exchangeChannel: Channel = channel('x:mcp:exchange')

/** One `SessionEvent` whenever a session begins or ends. */
export const sessionChannel: Channel = channel('x:mcp:session')
