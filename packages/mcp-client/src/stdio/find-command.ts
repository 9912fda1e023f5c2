import { posix, win32 } from 'node:path'

export interface CommandSearch {
  readonly platform: NodeJS.Platform
  /** `PATH`. Entries that are not absolute are passed over. */
  readonly path: string | undefined
  /** `PATHEXT` of Windows. @default '.COM;.EXE;.BAT;.CMD' */
  readonly pathExt?: string | undefined
  /** What a command with a folder in it is relative to. */
  readonly cwd: string
  /** Whether there is a file that can be executed. */
  readonly isExecutable: (file: string) => boolean
}

const PATH_EXT = '.COM;.EXE;.BAT;.CMD'

/** The absolute path of the program that a command stands for; undefined if there is none. */
export function findCommand(command: string, search: CommandSearch): string | undefined {
  const { platform, cwd, isExecutable } = search
  const isWindows = platform === 'win32'
  const paths = isWindows ? win32 : posix
  const hasFolder = isWindows ? /[\\/:]/.test(command) : command.includes('/')
  const folders = (search.path ?? '')
    .split(paths.delimiter)
    .map((folder) => (isWindows ? folder.replaceAll('"', '') : folder))
    .filter((folder) => paths.isAbsolute(folder))
  const places = hasFolder
    ? [paths.resolve(cwd, command)]
    : folders.map((folder) => paths.join(folder, command))
  return places
    .flatMap((place) => (isWindows ? windowsFiles(place, search.pathExt) : [place]))
    .find((file) => isExecutable(file))
}

/** Windows runs what has one of these extensions, and adds them where they are left out. */
function windowsFiles(place: string, pathExt = PATH_EXT): readonly string[] {
  const extensions = pathExt.split(';').filter((extension) => extension.startsWith('.'))
  const given = win32.extname(place).toUpperCase()
  const added = extensions.map((extension) => place + extension.toLowerCase())
  const isComplete = extensions.some((extension) => extension.toUpperCase() === given)
  return isComplete ? [place, ...added] : added
}
