import type { AgentCard, Role } from '@a2a-js/sdk'
import type { Client } from '@a2a-js/sdk/client'

import type { Agent } from '../agent.ts'
import type { GuardedFetch } from '../../internal/guarded-fetch.ts'
import type { A2aSdk } from './a2a-sdk.ts'
import { agentFrom } from './agent-card.ts'

/** An agent as its card says, and how it is called. */
export interface RemoteAgent {
  readonly agent: Agent
  readonly client: Client
  readonly isStreaming: boolean
  readonly fetch: GuardedFetch
  /** Whom messages to it come from. */
  readonly userRole: Role
}

/** @throws what the SDK throws for a card without an address that it can call */
export async function remoteAgentFrom(
  card: AgentCard,
  agentId: string,
  { sdk, fetch }: { readonly sdk: A2aSdk; readonly fetch: GuardedFetch },
): Promise<RemoteAgent> {
  const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = sdk.client
  const options = { fetchImpl: fetch, legacyCompat: { enabled: true } }
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
    // The card was read and checked before: nothing is asked for, and nothing read again.
    cardResolver: { resolve: () => Promise.resolve(card), normalizeAgentCard: () => card },
  })
  const client = await factory.createFromAgentCard(card)
  const isStreaming = card.capabilities?.streaming === true
  const userRole = sdk.core.Role.ROLE_USER
  return { agent: agentFrom(card, agentId), client, isStreaming, fetch, userRole }
}
