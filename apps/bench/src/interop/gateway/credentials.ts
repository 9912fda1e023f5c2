import { bearerAuth } from '@x/mcp-gateway'
import { expectThat } from '../check.ts'
import type { ClientKind } from './client-kind.ts'
import { expectHolds } from './expect-holds.ts'
import { serveInterop } from './interop-gateway.ts'

const TOKEN = 'a-token-of-some-length'

/** With the token of a header it is served; without one its user reads that it was not let in. */
export async function bringsToken(kind: ClientKind): Promise<void> {
  await using gateway = await serveInterop({ auth: bearerAuth(TOKEN) })
  const { url } = gateway
  const headers = { authorization: `Bearer ${TOKEN}` }
  await using client = await kind.connect({ url, headers })
  expectHolds(await client.call('support_ask', 'May I?'), 'You said: May I?')
  const told = await uninvited(kind, url)
  expectThat(/401|unauthorized|invalid_token|credential/i.test(told), `expected a 401, got ${told}`)
}

async function uninvited(kind: ClientKind, url: string): Promise<string> {
  try {
    await using client = await kind.connect({ url })
    return await client.call('support_ask', 'May I?')
  } catch (error) {
    return String(error)
  }
}
