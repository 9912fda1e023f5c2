import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

import { loadA2aSdk } from './a2a-sdk.ts'

/** What of the SDK is loaded when the whole package is, and a program of its own has run. */
async function loadedBy(program: string): Promise<unknown> {
  const script = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({
      resolve(specifier, context, next) {
        if (specifier.startsWith('@a2a-js')) loaded.add(specifier)
        return next(specifier, context)
      },
    })
    const { createGateway, a2aSource } = await import(process.argv[1])
    ${program}
    console.log(JSON.stringify([...loaded].sort()))
  `
  const index = fileURLToPath(new URL('../../index.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(sourceNode, [
    '--conditions=mcp-source',
    '--input-type=module',
    '--eval',
    script,
    index,
  ])
  return JSON.parse(stdout)
}

test('a gateway with one graph does not load the SDK of A2A; one with a card does', async () => {
  const withGraph = `
    const graph = { channels: { messages: {} }, async stream() { return [] } }
    const gateway = createGateway({ agents: { one: { graph, description: '' } } })
    await (await gateway.listen({ port: 0 })).close?.()
    await gateway.close()
    a2aSource({ cards: ['https://agent.example'] })`
  expect(await loadedBy(withGraph)).toEqual([])
  const withCard = `
    const source = a2aSource({ cards: ['http://127.0.0.1:9'] })
    await source.start({ found() {}, seen() {}, gone() {} })
    await source.close()`
  expect(await loadedBy(withCard)).toEqual(['@a2a-js/sdk', '@a2a-js/sdk/client'])
})

test('where the SDK is missing, the error says what to install', async () => {
  const missing = new Error('Cannot find package')
  await expect(loadA2aSdk(() => Promise.reject(missing))).rejects.toMatchObject({
    code: 'CONFIG',
    message: expect.stringContaining('npm install @a2a-js/sdk') as string,
    cause: missing,
  })
})
