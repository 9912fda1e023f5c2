import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isRecord } from '@x/internal'
import { GatewayError } from '../../errors.ts'
import { isRunnableGraph, type GraphDefinition, type RunnableGraph } from './definition.ts'

/**
 * Reads the graphs of a `langgraph.json`: `"name": "./path.ts:export"` or `"name": { "path", "description" }`. The
 * export is a compiled graph, or a function that makes one. A file is imported when its graph is made, so a file that
 * cannot be loaded affects its own graph only.
 *
 * @throws GatewayError `CONFIG` if the file is missing, is not JSON, or has no `graphs`
 */
export async function graphsFromConfig(
  file: string | URL,
): Promise<Readonly<Record<string, GraphDefinition>>> {
  const path = resolve(file instanceof URL ? fileURLToPath(file) : file)
  const config = await readJson(path)
  const graphs = isRecord(config) ? config['graphs'] : undefined
  if (!isRecord(graphs)) throw wrong(path, 'graphs', 'must be an object with graphs by name')
  const definitions = Object.entries(graphs).map(([name, entry]): [string, GraphDefinition] => {
    const described = isRecord(entry) ? entry['description'] : undefined
    const description = typeof described === 'string' ? described : ''
    return [name, { graph: () => graphFrom(path, name, entry), description }]
  })
  return Object.fromEntries(definitions)
}

async function graphFrom(config: string, name: string, entry: unknown): Promise<RunnableGraph> {
  const text = isRecord(entry) ? entry['path'] : entry
  const where = `graphs.${name}`
  if (typeof text !== 'string') throw wrong(config, where, 'must be "./file.ts:export"')
  const [, path = '', exported = 'default'] = /^(.*?)(?::([\w$]+))?$/.exec(text) ?? []
  const { [exported]: value } = await importFile(resolve(dirname(config), path), where)
  const made: unknown =
    typeof value === 'function' ? await value({ configurable: {} }) : await value
  if (isRunnableGraph(made)) return made
  throw wrong(config, where, `names the export "${exported}", which is not a compiled graph`)
}

async function importFile(file: string, where: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(file).href)
    return isRecord(module) ? module : {}
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : ''
    const [, name] = /^Cannot find package '((?:@[^/']+\/)?[^/']+)/.exec(why) ?? []
    const message =
      name === undefined
        ? `${file} cannot be loaded${why === '' ? '' : `: ${why}`}`
        : `${file} needs the package ${name}, which is not installed: npm install ${name}`
    throw new GatewayError('CONFIG', message, { cause, path: where })
  }
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (cause) {
    const isMissing = cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
    const why = isMissing ? 'does not exist' : 'cannot be read as JSON'
    throw new GatewayError('CONFIG', `${path} ${why}`, { cause })
  }
}

function wrong(path: string, where: string, what: string): GatewayError {
  return new GatewayError('CONFIG', `${where} in ${path} ${what}`, { path: where })
}
