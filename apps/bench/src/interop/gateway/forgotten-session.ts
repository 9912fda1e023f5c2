import { expectThat } from '../check.ts'
import type { ClientKind } from './client-kind.ts'
import { expectHolds } from './expect-holds.ts'
import { serveInterop } from './interop-gateway.ts'

/** What a user sees when the gateway has forgotten the session: of most clients, an error that says so. */
export async function meetsForgottenSession(kind: ClientKind): Promise<void> {
  await using gateway = await serveInterop()
  await using client = await kind.connect({ url: gateway.url })
  expectHolds(await client.call('support_ask', 'First?'), 'You said: First?')
  await gateway.replace()
  if (kind.era === 'modern' || kind.can.includes('heals')) {
    expectHolds(await client.call('support_ask', 'Second?'), 'You said: Second?')
    return
  }
  const told = await client.call('support_ask', 'Second?').catch(String)
  expectThat(/session not found/i.test(told), `expected "Session not found", got ${told}`)
  await using another = await kind.connect({ url: gateway.url })
  expectHolds(await another.call('support_ask', 'Third?'), 'You said: Third?')
}
