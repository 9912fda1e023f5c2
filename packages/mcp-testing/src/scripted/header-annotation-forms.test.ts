import { expect, test, vi } from 'vitest'
import { connectModernClient } from '../../test/modern-client.ts'
import { headerAnnotationForms } from './header-annotation-forms.ts'
import { startScriptedServer } from './scripted-server.ts'

test('the client of SDK v2 agrees which tools to leave out', async () => {
  using warn = vi.spyOn(console, 'warn').mockReturnValue()
  const forms = Object.entries(headerAnnotationForms)
  const tools = forms.map(([name, { inputSchema }]) => ({ name, inputSchema }))
  await using server = await startScriptedServer({
    'tools/list': { result: { tools, ttlMs: 0, cacheScope: 'private' } },
  })
  await using client = await connectModernClient(server.url)
  const kept = (await client.listTools()).tools.map((tool) => tool.name)
  expect(kept).toEqual(forms.flatMap(([name, { fault }]) => (fault === undefined ? [name] : [])))
  expect(warn).toHaveBeenCalled() // with the reasons
})
