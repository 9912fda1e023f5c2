// The keys of a `langgraph.json` beside `graphs`: what the gateway does with each, or why it does nothing.
import { readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { decodeText, isObject, isRecord } from '@x/internal'

type Warn = (message: string) => void

/** Why a key is not used, and what to do instead. Settings of LangGraph's images and of its server have no other use. */
const UNUSED: Readonly<Record<string, string>> = {
  auth: 'It checks no callers here: set "auth" of the gateway',
  checkpointer: 'Compile the graph with its checkpointer, or its threads are in this process',
  http: 'Its routes and rules are not served: set "http" of the gateway',
  node_loader: 'The gateway has its own loader for TypeScript',
  store:
    'Graphs without a store share one in this process, without an index: compile the graph with its store',
  ui: 'Components for user interfaces are not served',
  ui_config: 'Components for user interfaces are not served',
  webhooks: 'No webhooks are called',
}

/** Keys of images in which LangGraph's server runs. */
const OF_IMAGES = new Set([
  '_INTERNAL_docker_tag',
  'api_version',
  'base_image',
  'docker_compose_file',
  'dockerfile_lines',
  'image_distro',
  'keep_pkg_tools',
  'pip_config_file',
  'pip_installer',
  'python_version',
])

const USED = new Set(['$schema', 'dependencies', 'env', 'graphs', 'node_version'])

/** Warns of each key that would change what LangGraph's server serves, and changes nothing here. */
export function warnOfUnused(
  file: string,
  config: Readonly<Record<string, unknown>>,
  warn: Warn,
): void {
  const name = basename(file)
  const keys = Object.keys(config).filter((key) => !USED.has(key) && !isEmpty(config[key]))
  const ofImages = keys.filter((key) => OF_IMAGES.has(key))
  if (ofImages.length > 0) {
    warn(`Not used in ${name}: ${ofImages.join(', ')}. The gateway builds no image`)
  }
  for (const key of keys) {
    if (OF_IMAGES.has(key) || (key === 'node_loader' && config[key] === 'tsx')) continue
    warn(`Not used in ${name}: ${key}. ${UNUSED[key] ?? 'The gateway does not know it'}`)
  }
  const { dependencies, node_version: version } = config
  const packages = Array.isArray(dependencies) ? dependencies.map(String) : []
  const remote = packages.filter((each) => !each.startsWith('.'))
  if (remote.length > 0) {
    warn(`Not used in ${name}: dependencies. The gateway installs nothing: ${remote.join(', ')}`)
  }
  const wanted = Number(version ?? 0)
  if (wanted > Number.parseInt(process.versions.node)) {
    warn(`node_version in ${name} is ${wanted}, and this is Node ${process.versions.node}`)
  }
}

function isEmpty(value: unknown): boolean {
  return !value || (isObject(value) && Object.keys(value).length === 0)
}

/** Variables that a file has set. Another file with another value gets a warning. */
const setBy = new Map<string, string>()

/**
 * Sets the variables of `env`: a file, relative to the folder of the configuration, or an object. A variable that is set
 * already stays as it is, as with LangGraph's server. Values are never part of a warning.
 */
export async function applyEnv(file: string, env: unknown, warn: Warn): Promise<void> {
  const name = basename(file)
  if (isEmpty(env)) return
  if (Array.isArray(env)) {
    const missing = env.map(String).filter((each) => process.env[each] === undefined)
    if (missing.length > 0)
      warn(`env in ${name} needs variables that are not set: ${missing.join(', ')}`)
    return
  }
  const values = typeof env === 'string' ? await readEnv(resolve(file, '..', env), warn) : env
  if (!isRecord(values)) {
    warn(`Not used in ${name}: env. It is neither the name of a file nor variables by name`)
    return
  }
  for (const [key, value] of Object.entries(values)) {
    const text = String(value)
    const now = process.env[key]
    if (now === undefined) {
      process.env[key] = text
      setBy.set(key, file)
    } else if (now !== text && (setBy.get(key) ?? file) !== file) {
      warn(`env in ${file}: ${key} keeps the value that ${setBy.get(key)} gave it`)
    }
  }
}

async function readEnv(path: string, warn: Warn): Promise<unknown> {
  try {
    return parseEnv(decodeText(await readFile(path)))
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    warn(
      `The file of variables ${path} ${isMissing ? 'does not exist' : 'cannot be read'}: continuing without it`,
    )
    return {}
  }
}

/** Values for the runs of one graph from `LANGGRAPH_CONFIG`, a variable of LangGraph's server. */
export interface RunDefaults {
  readonly configurable?: Readonly<Record<string, unknown>> | undefined
  readonly context?: Readonly<Record<string, unknown>> | undefined
  readonly recursionLimit?: number | undefined
}

/** Reads the defaults of all graphs, by name. */
export function runDefaults(warn: Warn): ReadonlyMap<string, RunDefaults> {
  const text = process.env['LANGGRAPH_CONFIG'] ?? ''
  if (text === '') return new Map()
  let all: unknown
  try {
    all = JSON.parse(text)
  } catch {
    // The text of the error would contain the value.
  }
  if (!isRecord(all)) {
    warn('LANGGRAPH_CONFIG is not used: it is not a JSON object with graphs by name')
    return new Map()
  }
  const entries = Object.entries(all).filter(([, value]) => isRecord(value))
  return new Map(
    entries.map(([name, value]) => {
      const { configurable, context, recursion_limit: limit } = isRecord(value) ? value : {}
      return [
        name,
        {
          configurable: isRecord(configurable) ? configurable : undefined,
          context: isRecord(context) ? context : undefined,
          recursionLimit: typeof limit === 'number' ? limit : undefined,
        },
      ]
    }),
  )
}
