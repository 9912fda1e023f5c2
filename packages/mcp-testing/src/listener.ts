import type { RpcId } from './rpc-message.ts'

/** One `subscriptions/listen` stream, as the server has it. */
export interface Listener {
  /** Id of the request, which is the id of the subscription. */
  readonly id: RpcId | undefined
  /** What the client asked for: `params.notifications`. */
  readonly requested: unknown
  /** What the server promised in its acknowledgement; absent before. */
  readonly acknowledged: unknown
  /** Number of the TCP connection it is on. */
  readonly connection: number
  readonly isOpen: boolean
}
