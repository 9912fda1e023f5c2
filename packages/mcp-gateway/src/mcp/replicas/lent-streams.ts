import type { Clock } from '../../internal/clock.ts'
import type { PostExchange } from '../sessions/post-exchange.ts'
import type { SessionCalls } from '../sessions/session-calls.ts'
import type { SessionEvents } from '../sessions/session-events.ts'
import type { SessionTransport } from '../sessions/session-transport.ts'

export interface LentStreamsOptions {
  readonly calls: SessionCalls
  readonly transport: SessionTransport
  /** @default no stream can be read elsewhere */
  readonly events: SessionEvents | undefined
  readonly clock: Clock
}

/** `whole`: all of it is kept, and answered; `ended`: nobody writes it any more; `lost`: not all of it could be kept. */
export type LentState = 'open' | 'whole' | 'ended' | 'lost'

/** Streams of a session that are written here, while its client reads them at another process. */
export class LentStreams {
  readonly #options: LentStreamsOptions

  constructor(options: LentStreamsOptions) {
    this.#options = options
  }

  /** It is read at another process, which says so again within `leaseMs`. */
  follow(stream: string, leaseMs: number): LentState {
    const { calls, clock, events, transport } = this.#options
    const post = calls.ofStream(stream)
    if (events?.isBroken(stream)) {
      if (post) calls.cancel(post)
      return 'lost'
    }
    if (!post || post.unanswered.size === 0) return events?.wrote(stream) ? 'whole' : 'ended'
    const wasFollowed = post.isFollowed
    post.attach()
    post.isFollowed = true
    post.detach(clock.after(leaseMs, () => calls.cancel(post)))
    const [first] = post.unanswered
    if (!wasFollowed && first !== undefined) transport.closeSSEStream(first)
    return 'open'
  }

  /** Its client left that process, too. */
  unfollow(stream: string): void {
    const post = this.#followed(stream)
    if (!post) return
    post.attach()
    this.#options.calls.wait(post)
  }

  isFollowed(stream: string): boolean {
    return this.#followed(stream) !== undefined
  }

  /** All of it was told there. */
  complete(stream: string): void {
    const post = this.#options.calls.ofStream(stream)
    post?.attach()
    // Else it is over when the SDK was told of those.
    if (post?.withdrawn.length === 0) this.#options.calls.drop(post)
  }

  #followed(stream: string): PostExchange | undefined {
    const post = this.#options.calls.ofStream(stream)
    return post?.isFollowed ? post : undefined
  }
}
