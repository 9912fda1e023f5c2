import { expectThat } from '../check.ts'
import type { Check } from '../check.ts'
import type { ClientKind } from '../gateway/client-kind.ts'
import { expectHolds } from '../gateway/expect-holds.ts'
import { KINDS } from '../gateway/kinds.ts'
import { startLangGraphServer } from '../langgraph/langgraph-server.ts'

const TOKEN = 'a-token-of-some-length'
const HEADERS = { authorization: `Bearer ${TOKEN}` }

/** The gateway as `http.app` of a `langgraph.json`, in LangGraph's own server, which replaces globals of Node. */
export const gatewayInLangGraphServer: readonly Check[] = [
  {
    group: 'The gateway as http.app of a langgraph.json',
    name: 'serves every client, lets nobody else in, and leaves the rest of the server alone',
    ms: 30_000,
    run: async () => {
      await using server = await startLangGraphServer(TOKEN)
      await letsNobodyElseIn(`${server.url}/mcp`)
      for (const kind of KINDS) await serves(kind, `${server.url}/mcp`)
      const { status } = await fetch(`${server.url}/ok`)
      expectThat(status === 200, `expected the server's own routes, got ${status} of /ok`)
    },
  },
]

async function serves(kind: ClientKind, url: string): Promise<void> {
  await using client = await kind.connect({ url, headers: HEADERS })
  const names = await client.listTools()
  expectThat(names.join() === 'support', `${kind.name}: expected support, got ${names.join(', ')}`)
  expectHolds(await client.call('support', 'Where is it?'), 'You said: Where is it?')
}

async function letsNobodyElseIn(url: string): Promise<void> {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
  for (const authorization of [undefined, 'Bearer wrong']) {
    const response = await fetch(url, {
      method: 'POST',
      headers: { ...headers, ...(authorization && { authorization }) },
      body,
    })
    await response.text()
    const challenge = response.headers.get('www-authenticate')
    expectThat(response.status === 401, `expected 401, got ${response.status}`)
    expectThat(challenge?.startsWith('Bearer') === true, `expected a challenge, got ${challenge}`)
  }
}
