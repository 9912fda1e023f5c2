import {
  isSpecType,
  SUBSCRIPTION_ID_META_KEY,
  type RequestId,
  type ServerCapabilities,
  type SubscriptionFilter,
} from '@modelcontextprotocol/server'

import type { ArtifactResources } from '../files/resources.ts'
import { LISTS, type ChangeListener, type Interest } from './change-feed.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { invalidParams, type Params } from './json-rpc.ts'
import type { Caller } from '../internal/principal.ts'
import { MAX_FOLLOWED } from './request-context.ts'

/** A stream of `subscriptions/listen`: changes of lists and resources, for a client of 2026-07-28. */
export class Subscription implements ChangeListener {
  readonly stream: EventStream = new EventStream()
  readonly #id: RequestId
  readonly interest: Interest
  /** The client is notified of nothing. */
  readonly isEmpty: boolean

  /**
   * Acknowledges the subscription. Its stream ends at once if the client gets no notification.
   *
   * @param owner of the list of resources that the client sees
   */
  constructor(id: RequestId, filter: SubscriptionFilter, owner: string | undefined) {
    this.#id = id
    this.isEmpty = Object.keys(filter).length === 0
    this.interest = {
      lists: LISTS.filter((type) => filter[`${type}ListChanged`]),
      owner,
      uris: filter.resourceSubscriptions ?? [],
    }
    this.stream.isEndless = true
    this.notify('notifications/subscriptions/acknowledged', { notifications: filter })
  }

  notify(method: string, params: Params): void {
    const stamped = { ...params, _meta: { [SUBSCRIPTION_ID_META_KEY]: this.#id } }
    this.#write({ method, params: stamped })
  }

  /** Ends the stream with the result of the request. */
  end(meta: Params): void {
    const stamped = { ...meta, [SUBSCRIPTION_ID_META_KEY]: this.#id }
    this.#write({ id: this.#id, result: { resultType: 'complete', _meta: stamped } })
    this.stream.end()
  }

  #write(message: Params): void {
    this.stream.write(toEvent(JSON.stringify({ jsonrpc: '2.0', ...message })))
  }
}

/**
 * Returns the part of the requested notifications that the caller gets: resources of others are left out.
 *
 * @throws ProtocolError -32602
 */
export async function acceptFilter(
  asked: unknown,
  caller: Caller,
  {
    capabilities: { prompts, resources: listed, tools },
    resources,
  }: {
    readonly capabilities: ServerCapabilities
    readonly resources: Pick<ArtifactResources, 'followed'> | undefined
  },
): Promise<SubscriptionFilter> {
  if (!isSpecType.SubscriptionFilter(asked)) {
    throw invalidParams('"notifications" must be a valid filter of subscriptions')
  }
  const own = new Set<string>()
  for (const uri of asked.resourceSubscriptions?.slice(0, MAX_FOLLOWED) ?? []) {
    const name = await resources?.followed(caller, uri)
    if (name !== undefined) own.add(name)
  }
  const { toolsListChanged, promptsListChanged, resourcesListChanged } = asked
  return {
    ...(toolsListChanged && tools?.listChanged && { toolsListChanged }),
    ...(promptsListChanged && prompts?.listChanged && { promptsListChanged }),
    ...(resourcesListChanged && listed?.listChanged && { resourcesListChanged }),
    ...(own.size > 0 && { resourceSubscriptions: [...own] }),
  }
}
