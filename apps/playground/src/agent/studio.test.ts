import { readFile } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'

test('langgraph.json names a graph that needs no server to be drawn', async () => {
  vi.stubEnv('PLAYGROUND_MODEL', 'scripted')
  vi.spyOn(console, 'warn').mockReturnValue() // no playground runs
  const app = new URL('../../', import.meta.url)
  const { graphs } = JSON.parse(await readFile(new URL('langgraph.json', app), 'utf8'))
  expect(graphs).toEqual({ team: './src/agent/studio.ts:graph' })
  const { graph } = await import('./studio.ts')
  expect(Object.keys((await graph.getGraphAsync()).nodes)).toEqual([
    '__start__',
    'model_request',
    'tools',
    '__end__',
  ])
})
