// Replaces functions of `node:fs/promises` as Yarn's Plug'n'Play does, in the process that imports this first: an open
// file cannot be synchronized, and `writeFile()` is that of callbacks, which takes no iterables.
import fs from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { promisify } from 'node:util'

const open = fs.promises.open.bind(fs.promises)
const notImplemented = async (): Promise<void> => {
  throw new Error('Method not implemented.')
}
fs.promises.open = async (...args): Promise<FileHandle> =>
  Object.assign(await open(...args), { sync: notImplemented, datasync: notImplemented })
Object.assign(fs.promises, { writeFile: promisify(fs.writeFile) })
syncBuiltinESMExports()
