import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'

/**
 * What a program loads in a process of its own: packages by their names, modules of Node, and `node:fetch` for the
 * implementation of `fetch` and `Response`. A program that is begun so prints nothing itself.
 *
 * @param program the body of a module; `source('cli/main.ts')` is the URL of a file of this package
 */
export async function loadedBy(program: string): Promise<readonly string[]> {
  const src = new URL('../src/', import.meta.url).href
  const script = `
    import { registerHooks } from 'node:module'
    const loaded = new Set()
    registerHooks({
      resolve(specifier, context, next) {
        const resolved = next(specifier, context)
        const found = resolved.url.match(/.*\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)/)
        if (found) loaded.add(found[1])
        else if (resolved.url.startsWith('node:')) loaded.add(resolved.url)
        return resolved
      },
    })
    const source = (path) => new URL(path, ${JSON.stringify(src)}).href
    ${program}
    if (process.moduleLoadList.some((name) => name.endsWith('deps/undici/undici'))) loaded.add('node:fetch')
    process.stderr.write(JSON.stringify([...loaded]))
  `
  const args = ['--conditions=mcp-source', '--input-type=module', '--eval', script]
  const { stderr } = await promisify(execFile)(sourceNode, args)
  const names: unknown = JSON.parse(stderr.trim().split('\n').at(-1) ?? '')
  if (!Array.isArray(names)) throw new TypeError('The program did not say what it loaded')
  return names.map(String).toSorted()
}
