import { GatewayError } from '../../errors.ts'

/** Where the card of an agent is, and what the agent is called by because of that. */
export interface CardAddress {
  readonly url: URL
  /** `a2a:` and where it lives. Without a query, which may hold a credential; fit to be part of an OAuth scope. */
  readonly agentId: string
}

const WELL_KNOWN = '/.well-known/agent-card.json'

/**
 * The address of a card: as it is for a URL that ends in `.json`, else that of the agent, whose card is at the
 * well-known place below it (A2A 1.0, "Agent Discovery").
 *
 * @throws GatewayError `CONFIG` for what is no http(s) URL, and for one with a user name in it
 */
export function cardAddressFrom(value: string): CardAddress {
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new GatewayError('CONFIG', 'The URL of an agent card has to be http or https')
  }
  if (url.username !== '' || url.password !== '') {
    throw new GatewayError('CONFIG', 'A credential belongs into the headers of an agent card')
  }
  url.hash = ''
  if (!url.pathname.endsWith('.json')) {
    url.pathname = `${url.pathname.replace(/\/+$/, '')}${WELL_KNOWN}`
  }
  const path = url.pathname.endsWith(WELL_KNOWN)
    ? url.pathname.slice(0, -WELL_KNOWN.length)
    : url.pathname
  return { url, agentId: `a2a:${url.origin}${path}` }
}
