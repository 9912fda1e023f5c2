import { runUnderPlugNPlay, temporaryFolder } from '@x/internal/testing'
import { expect, test } from 'vitest'

test("stores sessions and credentials with Yarn's Plug'n'Play", async () => {
  await using here = await temporaryFolder()
  const script = `
    import { FileSessionInfo } from '@x/mcp-transport'
    import { fileTokenStore } from '@x/mcp-transport/auth'
    const session = ${JSON.stringify(here.file('session.json'))}
    await new FileSessionInfo(session).setSessionId('a-session')
    const store = fileTokenStore(${JSON.stringify(here.file('tokens.json'))})
    await store.exclusively(() => store.write({ v: 1, codeVerifier: 'a-verifier' }))
    console.log(await new FileSessionInfo(session).getSessionId(), (await store.read()).codeVerifier)`
  expect(await runUnderPlugNPlay(script, import.meta.dirname)).toBe('a-session a-verifier')
})
