// Reads a configuration from YAML, variables and flags, and names the place of each mistake.
import { readFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'

import { decodeText, isRecord, withoutErrorLink } from '@x/internal'
import { CommandError, toLine, UsageError } from '@x/internal/command-line'
import { isCollection, isPair, isScalar, isNode, LineCounter, parseDocument } from 'yaml'
import type { Document } from 'yaml'
import type { z } from 'zod'

import { GatewayError } from '../errors.ts'
import {
  parsePath,
  pathText,
  problemsOf,
  problemText,
  shapesAt,
  valueAt,
  type SettingPath,
  type SettingProblem,
} from '../gateway/setting-paths.ts'
import { importSection, PACKAGES, type FileSections } from './file-sections.ts'
import { toFileSchema, type FileSettings } from './file-settings.ts'
import { validPartsOf } from './valid-parts.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** A flag of the command line that sets a setting. */
export interface SettingFlag {
  readonly path: SettingPath
  readonly text: string
  /** Name of the flag: `--port`. */
  readonly from: string
}

export interface ConfigFile {
  /** Its path, for messages. Packages are looked for beside it too. */
  readonly file: string
  readonly env: Environment
  /** They win over the file. */
  readonly flags: readonly SettingFlag[]
}

/** A configuration, and where each setting comes from. */
export interface ReadConfig {
  readonly config: FileSettings
  /** Schema of this file, with the sections of the packages that it uses. */
  readonly schema: z.ZodType<FileSettings>
  /** Sections of the packages that it uses. */
  readonly sections: FileSections
  /** `gateway.yaml:12`, or `--port`. For a default: the nearest section, or the file. */
  readonly placeOf: (path: string) => string
}

/** The parts of a configuration that could be read. */
export interface TriedConfig {
  /** A line for each mistake, with its place. */
  readonly mistakes: readonly string[]
  /** Place of the first mistake. */
  readonly firstPath: string | undefined
  /** The configuration, or its valid parts. `undefined`: no part of it can be read. */
  readonly read: ReadConfig | undefined
  /** Returns true if a mistake was at or around these settings, or within them: what depends on them cannot be judged. */
  readonly isUnknown: (...settings: readonly string[]) => boolean
}

/**
 * Reads a file and flags.
 *
 * @throws UsageError for a wrong flag; CommandError for a file that cannot be read; GatewayError `CONFIG`
 */
export async function readConfigFile(file: ConfigFile): Promise<ReadConfig> {
  return wholeOf(await tryConfigFile(file))
}

/**
 * Reads what can be read of a file.
 *
 * @throws UsageError for a wrong flag; CommandError for a file that cannot be read; GatewayError `CONFIG` for text that is not YAML
 */
export async function tryConfigFile({ file, env, flags }: ConfigFile): Promise<TriedConfig> {
  try {
    await readConfig({}, { flags })
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    throw new UsageError(error.message, { cause: error })
  }
  return tryConfig(await readText(file), { file, env, flags })
}

/**
 * Reads a configuration: expands variables, adds flags, imports the packages that it needs, checks it,
 * and fills in the defaults.
 *
 * @param content YAML, or the same as an object
 * @throws GatewayError `CONFIG` with a line for each mistake, and the path of the first one
 */
export async function readConfig(
  content: string | object,
  options: Partial<ConfigFile> = {},
): Promise<ReadConfig> {
  return wholeOf(await tryConfig(content, options))
}

/** @throws GatewayError `CONFIG` if there are mistakes */
function wholeOf({ mistakes, firstPath, read }: TriedConfig): ReadConfig {
  if (read && mistakes.length === 0) return read
  throw new GatewayError('CONFIG', mistakes.join('\n'), { path: firstPath })
}

async function tryConfig(
  content: string | object,
  { file = 'configuration', env = {}, flags = [] }: Partial<ConfigFile>,
): Promise<TriedConfig> {
  const yaml = typeof content === 'string' ? parseYaml(content, file) : undefined
  const given = fromLangGraph((yaml ? yaml.value : content) ?? {}, file)
  // The first reading finds the packages, and their sections complete the schema for the second one.
  const { found, missing } = await importSections(
    interpret(given, { schema: CORE_SCHEMA, env, flags }).value,
    dirname(file),
  )
  const isPlain = Object.values(found).every((each) => Object.keys(each).length === 0)
  const schema = isPlain ? CORE_SCHEMA : toFileSchema(found)
  const { value, mistakes } = interpret(given, { schema, env, flags })
  const placeOf = (path: SettingPath): string => {
    const flag = flags.find((each) => isWithin(path, each.path))
    if (flag) return flag.from
    const line = yaml?.lineOf(path)
    return line === undefined ? file : `${file}:${line}`
  }
  mistakes.push(...missing)
  const result = schema.safeParse(value, { jitless: true }) // parses once, as completeSettings() does
  const common = { schema, sections: found }
  if (result.success && mistakes.length === 0) {
    const read = {
      config: result.data,
      ...common,
      placeOf: (path: string) => placeOf(parsePath(path)),
    }
    return { mistakes: [], firstPath: undefined, read, isUnknown: () => false }
  }
  const problems = result.error?.issues.flatMap((issue) => problemsOf(schema, issue, value))
  const causes = mistakes.map(({ section }) => section)
  for (const problem of problems ?? []) {
    // A variable that is not set, or a package that is not installed, explains what is wrong there.
    if (causes.some((cause) => isWithin(problem.path, cause))) continue
    mistakes.push(mistakeOf(problem))
  }
  const parts = validPartsOf(
    value,
    schema,
    mistakes.map(({ section }) => section),
  )
  for (const problem of parts?.more ?? []) mistakes.push(mistakeOf(problem))
  const read = parts && {
    config: parts.config,
    ...common,
    placeOf: (path: string) => placeOf(parts.originalOf(parsePath(path))),
  }
  return {
    mistakes: mistakes.map(({ path, text }) => `${placeOf(path)}: ${text}`),
    firstPath: pathText(mistakes[0]?.path ?? []),
    read,
    isUnknown: (...settings) =>
      settings
        .map(parsePath)
        .some((path) =>
          parts?.removed.some((each) => isWithin(each, path) || isWithin(path, each)),
        ),
  }
}

function mistakeOf(problem: SettingProblem): Mistake {
  const { path, type } = problem
  const section = type === 'missing' ? path.slice(0, -1) : path
  return { path, text: problemText(problem, 'setting'), section }
}

/** A `langgraph.json` in the place of a configuration stands for one with its graphs and all defaults. */
function fromLangGraph(content: unknown, file: string): unknown {
  // Its name tells it too: a key in it may be misspelled.
  const isLangGraph =
    isRecord(content) &&
    !('sources' in content) &&
    ('graphs' in content || /^langgraph(?:\.[\w-]+)*\.json$/.test(basename(file)))
  return isLangGraph ? { sources: [{ type: 'langgraph', config: basename(file) }] } : content
}

interface Mistake {
  readonly path: SettingPath
  readonly text: string
  /** Section that cannot be checked because of this mistake. */
  readonly section: SettingPath
}

const CORE_SCHEMA = toFileSchema({ sources: {}, store: {}, auth: {} })

/** Imports the sections of all packages that a configuration uses. */
async function importSections(
  config: unknown,
  folder: string,
): Promise<{ readonly found: FileSections; readonly missing: readonly Mistake[] }> {
  const found: FileSections = { sources: {}, store: {}, auth: {} }
  const missing: Mistake[] = []
  /** @param path of the setting that needs the package */
  const load = async (
    kind: keyof FileSections,
    word: unknown,
    { path, section }: { readonly path: SettingPath; readonly section: SettingPath },
  ): Promise<void> => {
    const name = typeof word === 'string' ? PACKAGES[kind][word] : undefined
    if (typeof word !== 'string' || name === undefined) return
    try {
      const use = kind === 'sources' ? `${pathText(path)} ${word}` : pathText(path)
      found[kind][word] ??= await importSection(name, { folder, use })
    } catch (error) {
      if (!GatewayError.is(error)) throw error
      missing.push({ path, text: withoutErrorLink(error.message), section })
    }
  }
  const url = { path: ['store', 'url'], section: ['store'] }
  if (valueAt(config, url.path) !== undefined) await load('store', 'redis', url)
  const facade = { path: ['auth', 'facade'], section: ['auth'] }
  if (valueAt(config, facade.path) !== undefined) await load('auth', 'facade', facade)
  const sources = valueAt(config, ['sources'])
  for (const index of Array.isArray(sources) ? sources.keys() : []) {
    const section = ['sources', index]
    const path = [...section, 'type']
    await load('sources', valueAt(config, path), { path, section })
  }
  return { found, missing }
}

/** Expands variables, and adds the flags. */
function interpret(
  given: unknown,
  { schema, env, flags }: { schema: z.ZodType; env: Environment; flags: readonly SettingFlag[] },
) {
  const mistakes: Mistake[] = []
  const value = flags.reduce(
    (before, { path, text }) => withValue(before, path, valueFromText(text, schema, path)),
    expand(given, { schema, env, mistakes }),
  )
  return { value, mistakes }
}

function isWithin(path: SettingPath, section: SettingPath): boolean {
  return section.every((part, index) => part === path[index])
}

// ---- YAML ----------------------------------------------------------------------------------------------------------

/** A file whose aliases refer to aliases could expand to gigabytes. */
const MAX_ALIASES = 100

/** Reads YAML or JSON. @throws GatewayError `CONFIG` with name and line */
function parseYaml(text: string, name: string) {
  const counter = new LineCounter()
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false })
  const [error] = document.errors
  if (error) {
    const { line } = counter.linePos(error.pos[0])
    throw new GatewayError('CONFIG', `${name}:${line}: ${error.message}`, { cause: error })
  }
  // From 1. For a place without a line of its own: the line of the nearest section.
  const lineOf = (path: SettingPath): number | undefined => {
    for (let length = path.length; length > 0; length--) {
      const at = startOf(document, path.slice(0, length))
      if (at !== undefined) return counter.linePos(at).line
    }
    return undefined
  }
  try {
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES })
    return { value, lineOf }
  } catch (cause) {
    throw new GatewayError('CONFIG', `${name}: it cannot be read as YAML`, { cause })
  }
}

function startOf(document: Document.Parsed, path: SettingPath): number | undefined {
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true)
  if (!isCollection(parent)) return undefined
  const key = path.at(-1)
  const item = parent.items.find((each, index) => {
    if (!isPair(each)) return index === key
    return isScalar(each.key) && String(each.key.value) === key
  })
  const node = isPair(item) ? item.key : item
  return isNode(node) ? node.range?.[0] : undefined
}

// ---- variables and flags -------------------------------------------------------------------------------------------

/**
 * Expands variables. Leaves out values that are `null`: they mean the default, as in a section whose keys are all
 * comments.
 */
function expand(
  content: unknown,
  { schema, env, mistakes }: { schema: z.ZodType; env: Environment; mistakes: Mistake[] },
): unknown {
  const visit = (value: unknown, path: SettingPath): unknown => {
    if (Array.isArray(value)) return value.map((each, index) => visit(each, [...path, index]))
    if (isRecord(value)) {
      const given = Object.entries(value).filter(([, each]) => each !== null && each !== undefined)
      return Object.fromEntries(given.map(([key, each]) => [key, visit(each, [...path, key])]))
    }
    if (typeof value !== 'string') return value
    const text = expandText(value, env, (problem) => {
      mistakes.push({ path, text: `${pathText(path)} ${problem}`, section: path })
    })
    return text === undefined ? value : valueFromText(text, schema, path)
  }
  return visit(content, [])
}

const VARIABLE = /\$\$\{|\$\{(?:([A-Za-z_]\w*)(?::-([^}]*))?\})?/g

/**
 * Replaces `${NAME}` and `${NAME:-default}`; the default also replaces an empty value. `$${` stands for `${`.
 *
 * @returns `undefined` if there is nothing to replace
 */
function expandText(
  text: string,
  env: Environment,
  onProblem: (problem: string) => void,
): string | undefined {
  let isExpanded = false
  const expanded = text.replaceAll(VARIABLE, (found: string, ...groups: unknown[]) => {
    const [name, fallback] = groups
    isExpanded = true
    if (found === '$${') return '${'
    if (typeof name !== 'string') {
      const advice = 'write ${NAME} or ${NAME:-default}, and $${ for the characters themselves'
      onProblem(`has a "${found}" that begins no variable: ${advice}`)
      return found
    }
    const value = env[name]
    if (typeof fallback === 'string') return value === undefined || value === '' ? fallback : value
    if (value === undefined) {
      const advice = `set it, or give a default: \${${name}:-…}`
      onProblem(`needs the variable ${name}, which is not set: ${advice}`)
    }
    return value ?? ''
  })
  return isExpanded ? expanded : undefined
}

function kindAt(schema: z.ZodType, path: SettingPath) {
  for (const { type, items } of shapesAt(schema, path)) {
    if (type === 'integer' || type === 'number') return 'number'
    if (type === 'boolean') return 'boolean'
    if (type === 'string') return 'text'
    if (type === 'array' && isRecord(items) && items['type'] === 'string') return 'texts'
  }
  return undefined
}

/** Reads a text from a flag or a variable as the kind of value of its place. A text that does not fit stays a text. */
function valueFromText(text: string, schema: z.ZodType, path: SettingPath): unknown {
  const word = text.trim()
  switch (kindAt(schema, path)) {
    case 'number':
      return /^-?\d+(?:\.\d+)?$/.test(word) ? Number(word) : text
    case 'boolean':
      return /^(?:true|false)$/i.test(word) ? word.toLowerCase() === 'true' : text
    case 'texts':
      return text
        .split(',')
        .map((each) => each.trim())
        .filter((each) => each !== '')
    case 'text':
    case undefined:
      return text
  }
}

/** Returns a configuration with a value at a place. */
function withValue(within: unknown, [key, ...rest]: SettingPath, value: unknown): unknown {
  if (key === undefined) return value
  const record = within ?? {}
  if (!isRecord(record)) return within // the schema refuses it
  return { ...record, [key]: withValue(record[key], rest, value) }
}

// ---- files ---------------------------------------------------------------------------------------------------------

/** Reads the text of a file. @throws CommandError that names it */
async function readText(file: string): Promise<string> {
  try {
    return decodeText(await readFile(file))
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    const advice = 'name another, or write a first one with mcp-gateway init'
    const why =
      code === 'ENOENT'
        ? `there is no such file: ${advice}`
        : code === 'EISDIR'
          ? 'it is a folder: name the configuration file in it'
          : `it cannot be read: ${toLine(cause)}`
    throw new CommandError(`${file}: ${why}`, { cause })
  }
}
