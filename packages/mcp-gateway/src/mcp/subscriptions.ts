import {
  isSpecType,
  SUBSCRIPTION_ID_META_KEY,
  type RequestId,
  type ServerCapabilities,
  type SubscriptionFilter,
} from '@modelcontextprotocol/server'

import type { ArtifactResources } from '../files/resources.ts'
import { CHANGE_METHODS, type Change, type ChangeListener } from './change-feed.ts'
import { EventStream, toEvent } from './event-stream.ts'
import { invalidParams, type Params } from './json-rpc.ts'
import type { Caller } from '../internal/principal.ts'
import { MAX_FOLLOWED } from './request-context.ts'

/** A stream of `subscriptions/listen`: changes of lists and resources, for a client of 2026-07-28. */
export class Subscription implements ChangeListener {
  readonly stream: EventStream = new EventStream()
  readonly #id: RequestId
  readonly #filter: SubscriptionFilter
  /** Owner of the list of resources that the client sees. */
  readonly #owner: string | undefined

  /** Acknowledges the subscription. Its stream ends at once if the client gets no notification. */
  constructor(id: RequestId, filter: SubscriptionFilter, owner: string | undefined) {
    this.#id = id
    this.#filter = filter
    this.#owner = owner
    this.stream.isEndless = true
    this.#notify('notifications/subscriptions/acknowledged', { notifications: filter })
  }

  get isEmpty(): boolean {
    return Object.keys(this.#filter).length === 0
  }

  changed(change: Change): void {
    if (!this.#wants(change)) return
    this.#notify(CHANGE_METHODS[change.type], change.type === 'resource' ? { uri: change.uri } : {})
  }

  missed(): void {
    this.changed({ type: 'tools' })
    this.changed({ type: 'prompts' })
    if (this.#owner !== undefined) this.changed({ type: 'resources', owner: this.#owner })
    for (const uri of this.#filter.resourceSubscriptions ?? []) {
      this.changed({ type: 'resource', uri })
    }
  }

  #notify(method: string, params: Params): void {
    const stamped = { ...params, _meta: { [SUBSCRIPTION_ID_META_KEY]: this.#id } }
    this.#write({ method, params: stamped })
  }

  /** Ends the stream with the result of the request. */
  end(meta: Params): void {
    const stamped = { ...meta, [SUBSCRIPTION_ID_META_KEY]: this.#id }
    this.#write({ id: this.#id, result: { resultType: 'complete', _meta: stamped } })
    this.stream.end()
  }

  #wants(change: Change): boolean {
    const filter = this.#filter
    switch (change.type) {
      case 'tools':
        return filter.toolsListChanged === true
      case 'prompts':
        return filter.promptsListChanged === true
      case 'resources':
        return filter.resourcesListChanged === true && change.owner === this.#owner
      case 'resource':
        return filter.resourceSubscriptions?.includes(change.uri) === true
    }
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
