import { Dispatcher } from 'undici'

/** One response, byte for byte. */
export interface Feed {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly chunks: readonly Buffer[]
  /** `broken`: the connection ends in the middle. */
  readonly end: 'complete' | 'broken'
}

/** The part of the request that the answer depends on. */
export interface Asked {
  readonly httpMethod: string
  readonly message: Readonly<Record<string, unknown>>
}

/** Answers with bytes, without a socket, a stream or a timer, so that fuzz tests run fast. */
export class FeedingDispatcher extends Dispatcher {
  readonly #answer: (asked: Asked) => Feed

  constructor(answer: (asked: Asked) => Feed) {
    super()
    this.#answer = answer
  }

  override dispatch(
    { method, body }: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const message = typeof body === 'string' ? (JSON.parse(body) as Asked['message']) : {}
    queueMicrotask(() => feed(this.#answer({ httpMethod: method, message }), handler))
    return true
  }

  override async close(): Promise<void> {}

  override async destroy(): Promise<void> {}
}

function feed({ status, headers, chunks, end }: Feed, handler: Dispatcher.DispatchHandler): void {
  const controller = new Controller()
  handler.onRequestStart?.(controller, {})
  if (!controller.aborted) handler.onResponseStart?.(controller, status, headers, '')
  for (const chunk of chunks) {
    if (controller.aborted) break
    handler.onResponseData?.(controller, chunk)
  }
  if (controller.reason !== null) handler.onResponseError?.(controller, controller.reason)
  else if (end === 'complete') handler.onResponseEnd?.(controller, {})
  else handler.onResponseError?.(controller, new Error('other side closed'))
}

class Controller implements Dispatcher.DispatchController {
  readonly paused = false
  reason: Error | null = null

  get aborted(): boolean {
    return this.reason !== null
  }

  abort(reason: Error): void {
    this.reason ??= reason
  }

  pause(): void {}

  resume(): void {}
}
