import { readFile } from 'node:fs/promises'
import { isAbsolute, resolve, dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { GatewayError } from '../../gateway-error.ts'
import { isRecord } from '../../is-record.ts'
import { isRunnableGraph, type GraphDefinition, type RunnableGraph } from './graph-definition.ts'

/**
 * The graphs of a `langgraph.json`: `"name": "./path.ts:export"` or `"name": { "path", "description" }`. The
 * export is a compiled graph, or a function that makes one.
 *
 * @throws GatewayError `CONFIG`
 */
export async function graphsFromConfig(
  file: string | URL,
): Promise<Readonly<Record<string, GraphDefinition>>> {
  const path = resolve(file instanceof URL ? fileURLToPath(file) : file)
  const config = await readJson(path)
  const graphs = isRecord(config) ? config['graphs'] : undefined
  if (!isRecord(graphs)) throw wrong(path, 'graphs', 'has to name graphs')
  const loading = Object.entries(graphs).map(async ([name, entry]) => {
    return [name, await definitionFrom(path, name, entry)] as const
  })
  return Object.fromEntries(await Promise.all(loading))
}

async function definitionFrom(
  config: string,
  name: string,
  entry: unknown,
): Promise<GraphDefinition> {
  const place = isRecord(entry) ? entry['path'] : entry
  const description = isRecord(entry) ? entry['description'] : undefined
  const where = `graphs.${name}`
  if (typeof place !== 'string') throw wrong(config, where, 'has to be "./file.ts:export"')
  const [, file = '', exported = 'default'] = /^(.*?)(?::([\w$]+))?$/.exec(place) ?? []
  const module = await importFile(isAbsolute(file) ? file : resolve(dirname(config), file), where)
  const value = module[exported]
  return {
    graph: () => graphFrom(value, { config, where, exported }),
    description: typeof description === 'string' ? description : '',
  }
}

interface Place {
  readonly config: string
  readonly where: string
  readonly exported: string
}

async function graphFrom(
  value: unknown,
  { config, where, exported }: Place,
): Promise<RunnableGraph> {
  const made: unknown =
    typeof value === 'function' ? await value({ configurable: {} }) : await value
  if (isRunnableGraph(made)) return made
  throw wrong(config, where, `names the export "${exported}", which is no compiled graph`)
}

async function importFile(path: string, where: string): Promise<Readonly<Record<string, unknown>>> {
  try {
    const module: unknown = await import(pathToFileURL(path).href)
    return isRecord(module) ? module : {}
  } catch (cause) {
    throw new GatewayError('CONFIG', `${path} cannot be loaded`, { cause, path: where })
  }
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (cause) {
    throw new GatewayError('CONFIG', `${path} cannot be read as JSON`, { cause })
  }
}

function wrong(path: string, where: string, what: string): GatewayError {
  return new GatewayError('CONFIG', `${where} in ${path} ${what}`, { path: where })
}
