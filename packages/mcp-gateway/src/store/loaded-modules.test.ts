import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

/** Returns all modules that are loaded with these. */
async function loadedWith(...paths: readonly string[]): Promise<string> {
  const urls = paths.map((path) => new URL(path, import.meta.url).href)
  const program = `
    const { registerHooks } = await import('node:module')
    registerHooks({
      resolve(specifier, context, next) {
        const resolved = next(specifier, context)
        console.log(resolved.url)
        return resolved
      },
    })
    for (const url of ${JSON.stringify(urls)}) await import(url)
    const { MemoryGatewayStore } = await import(${JSON.stringify(urls[0])})
    await new MemoryGatewayStore().close()`
  const args = ['--conditions=mcp-source', '--input-type=module', '--eval', program]
  const child = spawn(sourceNode, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  return text(child.stdout)
}

test('loads SQLite only when a store uses it', async () => {
  const loaded = await loadedWith('./memory-store.ts', './sqlite-store.ts', '../files/artifacts.ts')
  expect(loaded).toContain('artifacts.ts')
  expect(loaded).not.toContain('node:sqlite')
})
