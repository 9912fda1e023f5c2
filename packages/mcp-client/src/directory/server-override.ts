import { isRecord } from '@x/internal'
import { FieldError, headersFrom, textFrom, urlFrom } from './server-fields.ts'

/** What is asked for, or reached, in place of a server. What it does not name stays as it was. */
export interface ServerOverride {
  /** Asked for in place of the slug or name; at most one of the two. */
  readonly slug?: string | undefined
  readonly name?: string | undefined
  readonly folderPath?: string | undefined
  /** The endpoint. No directory is asked then, and none of its headers are sent there. */
  readonly url?: string | undefined
  /** In place of the directory's headers. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** By `mcpServer.{slug or name}.{folderPath}`, or `mcpServer.{slug or name}` for any folder. */
export type ServerOverrides = Readonly<Record<string, ServerOverride>>

/** @throws FieldError for an entry that cannot be used */
export function overrideFrom(value: unknown): ServerOverride {
  if (!isRecord(value)) throw new FieldError('it is not an object')
  const take = <T>(field: string, from: (here: string, given: unknown) => T): T | undefined =>
    value[field] === undefined || value[field] === null ? undefined : from(field, value[field])
  const override = {
    slug: take('slug', identifierFrom),
    name: take('name', identifierFrom),
    folderPath: take('folderPath', textFrom),
    url: take('url', urlFrom),
    headers: take('headers', headersFrom),
  }
  if (Object.values(override).every((part) => part === undefined)) {
    throw new FieldError('it names none of slug, name, folderPath, url and headers')
  }
  if (override.slug !== undefined && override.name !== undefined) {
    throw new FieldError('slug and name are both given')
  }
  return override
}

function identifierFrom(field: string, value: unknown): string {
  const text = textFrom(field, value)
  if (text === '') throw new FieldError(`${field} is empty`)
  return text
}
