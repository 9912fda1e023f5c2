import type { ExchangeEvent, StreamableHttpTransportOptions } from '@x/mcp-transport'
import type { ClientEvents } from '../client-events.ts'

type Options = StreamableHttpTransportOptions
type OnExchange = (event: ExchangeEvent) => void

export interface Observer {
  readonly onExchange: OnExchange
  /** Asked before each exchange: whether anybody wants to be told of it. */
  readonly events: Pick<ClientEvents, 'areHeard'>
}

/**
 * What a client tells its transports. A class, since each client has one: of an object whose getter is its own V8
 * makes a table, which weighs a KiB.
 */
export class ObservedOptions implements Options {
  readonly sessionInfo: Options['sessionInfo']
  readonly principal: Options['principal']
  readonly headers: Options['headers']
  readonly dispatcher: Options['dispatcher']
  readonly era: Options['era']
  readonly authProvider: Options['authProvider']
  readonly traceContext: Options['traceContext']
  readonly timeouts: Options['timeouts']
  readonly limits: Options['limits']
  readonly reconnect: Options['reconnect']
  readonly #onExchange: OnExchange
  readonly #events: Observer['events']

  constructor(options: Omit<Options, 'onExchange'>, { onExchange, events }: Observer) {
    this.sessionInfo = options.sessionInfo
    this.principal = options.principal
    this.headers = options.headers
    this.dispatcher = options.dispatcher
    this.era = options.era
    this.authProvider = options.authProvider
    this.traceContext = options.traceContext
    this.timeouts = options.timeouts
    this.limits = options.limits
    this.reconnect = options.reconnect
    this.#onExchange = onExchange
    this.#events = events
  }

  get onExchange(): OnExchange | undefined {
    return this.#events.areHeard ? this.#onExchange : undefined
  }
}
