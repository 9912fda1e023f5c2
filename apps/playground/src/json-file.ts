import { readFile } from 'node:fs/promises'
import { UserError } from './user-error.ts'

/** @throws UserError that names the file, if there is none or it is not JSON. */
export async function readJsonFile(path: string): Promise<unknown> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new UserError(`${path}: cannot be read (does the file exist?)`, { cause })
  }
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new UserError(`${path}: is not JSON: ${cause instanceof Error ? cause.message : ''}`, {
      cause,
    })
  }
}
