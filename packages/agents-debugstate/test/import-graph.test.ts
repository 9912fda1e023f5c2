import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

/** Returns all modules that a module loads, with itself and packages. Files have their path in `src`. */
async function loadedBy(file: string, seen = new Set<string>()): Promise<Set<string>> {
  const here = new URL(`../src/${file}`, import.meta.url)
  seen.add(file)
  const code = await readFile(here, 'utf8')
  const specifiers = code.matchAll(/^(?:import|export)\s(?!type\b)[^'"]*?from '([^']+)'/gm)
  for (const [, specifier = ''] of specifiers) {
    const [, inner] = new URL(specifier, here).href.split('/agents-debugstate/src/')
    if (!specifier.startsWith('.')) seen.add(specifier)
    else if (inner !== undefined && !seen.has(inner)) await loadedBy(inner, seen)
  }
  return seen
}

test('loads no module of the service for a client', async () => {
  const loaded = await loadedBy('index.ts')
  expect(loaded).toContain('debug-state-client.ts') // the search follows imports
  const service = [...loaded].filter((module) =>
    /^(server|cli)\/|^(pino|hono|@hono|redis)\b|sqlite/.test(module),
  )
  expect(service).toEqual([])
})

test('loads pino for the command only', async () => {
  expect(await loadedBy('server/index.ts')).not.toContain('pino')
  expect(await loadedBy('cli/program.ts')).toContain('pino')
})

test('loads no client module for debugstate serve', async () => {
  const { name } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  const [scope] = name.split('/')
  const loaded = [...(await loadedBy('cli/program.ts'))]
  const ours = loaded.filter((module) => module.startsWith(`${scope}/`))
  expect(ours.filter((module) => module.startsWith(`${scope}/internal`))).not.toEqual([])
  expect(ours.filter((module) => !module.startsWith(`${scope}/internal`))).toEqual([])
  expect(loaded).not.toContain('undici')
})
