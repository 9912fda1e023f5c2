import { isObject, isRecord } from '@x/internal'
import { mapSchemas } from './schema-walk.ts'

const MAX_DEPTH = 64
const MAX_NODES = 20_000
const MAX_CHARACTERS = 65_536

/**
 * Why a schema cannot be that of a tool; `undefined` if it can. Looks at form and bounds only: the rest shows
 * when it is compiled, which costs more than all else and waits for the first call.
 */
export function schemaDefectOf(schema: unknown): string | undefined {
  if (!isRecord(schema)) return 'it is no object'
  const { type } = schema
  if (type !== undefined && type !== 'object') {
    return `it is of type ${JSON.stringify(type)?.slice(0, 60)}, and no object`
  }
  return excessOf(schema) ?? badFormIn(schema) ?? badReferenceIn(schema)
}

const TYPES: ReadonlySet<unknown> = new Set([
  'object',
  'array',
  'string',
  'number',
  'integer',
  'boolean',
  'null',
])

function badFormIn(root: Readonly<Record<string, unknown>>): string | undefined {
  let defect: string | undefined
  mapSchemas(root, (schema) => {
    const { type, properties, required, pattern, enum: values } = schema
    const types = Array.isArray(type) ? type : [type]
    if (type !== undefined && !types.every((each) => TYPES.has(each))) {
      defect ??= `${JSON.stringify(type)?.slice(0, 60)} is no type of JSON`
    }
    if (properties !== undefined && !(isRecord(properties) && areSchemas(properties))) {
      defect ??= '"properties" is no object of schemas'
    }
    if (required !== undefined && !(Array.isArray(required) && required.every(isText))) {
      defect ??= '"required" is no list of names'
    }
    if (values !== undefined && !Array.isArray(values)) defect ??= '"enum" is no list'
    if (pattern !== undefined && !isExpression(pattern)) {
      defect ??= '"pattern" is no regular expression'
    }
    return schema
  })
  return defect
}

function areSchemas(properties: Readonly<Record<string, unknown>>): boolean {
  return Object.values(properties).every((each) => isRecord(each) || typeof each === 'boolean')
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isExpression(value: unknown): boolean {
  try {
    return isText(value) && new RegExp(value, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** An object of this process may lead back to itself, and hold what JSON does not. */
function excessOf(schema: object): string | undefined {
  let level: object[] = [schema]
  let nodes = 0
  for (let depth = 1; level.length > 0; depth++) {
    nodes += level.length
    if (depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`
    if (nodes > MAX_NODES) return `it has more than ${MAX_NODES} parts`
    level = level.flatMap((node) => Object.values(node)).filter((value) => isObject(value))
  }
  try {
    const isLong = JSON.stringify(schema).length > MAX_CHARACTERS
    return isLong ? `it has more than ${MAX_CHARACTERS} characters` : undefined
  } catch {
    return 'it holds what JSON does not'
  }
}

/** Nothing is fetched; and a pointer that leads nowhere would only show at the first call. */
function badReferenceIn(schema: Readonly<Record<string, unknown>>): string | undefined {
  const open: unknown[] = [schema]
  while (open.length > 0) {
    const node = open.pop()
    if (!isObject(node)) continue
    open.push(...Object.values(node))
    const reference = isRecord(node) ? node['$ref'] : undefined
    if (typeof reference !== 'string') continue
    const shown = reference.split('?')[0]?.slice(0, 100)
    if (!reference.startsWith('#')) return `"${shown}" is in another document, which is not fetched`
    if (reference.startsWith('#/') && !leadsSomewhere(schema, reference)) {
      return `"${shown}" leads nowhere`
    }
  }
  return undefined
}

function leadsSomewhere(schema: object, pointer: string): boolean {
  let value: unknown = schema
  for (const step of pointer.slice(2).split('/')) {
    const name = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~')
    if (!isObject(value) || !Object.hasOwn(value, name)) return false
    value = Object.getOwnPropertyDescriptor(value, name)?.value
  }
  return true
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
