/** Commands of a package manager. */
export interface PackageManager {
  readonly name: string
  readonly lockfiles: readonly string[]
  /** Installs the packages of `package.json`. */
  readonly install: string
  /** Adds packages. */
  readonly add: string
  /** Runs the command of a package. */
  readonly run: string
}

const NPM: PackageManager = {
  name: 'npm',
  lockfiles: ['package-lock.json'],
  install: 'npm install',
  add: 'npm install',
  run: 'npx',
}

export const PACKAGE_MANAGERS: readonly PackageManager[] = [
  NPM,
  {
    name: 'pnpm',
    lockfiles: ['pnpm-lock.yaml'],
    install: 'pnpm install',
    add: 'pnpm add',
    run: 'pnpm exec',
  },
  { name: 'yarn', lockfiles: ['yarn.lock'], install: 'yarn', add: 'yarn add', run: 'yarn' },
  {
    name: 'bun',
    lockfiles: ['bun.lock', 'bun.lockb'],
    install: 'bun install',
    add: 'bun add',
    run: 'bunx',
  },
]

/** Returns the package manager that started this process. @returns npm, if none did */
export function runningPackageManager(
  env: Readonly<Record<string, string | undefined>>,
): PackageManager {
  const [running] = (env['npm_config_user_agent'] ?? '').split('/', 1)
  return PACKAGE_MANAGERS.find(({ name }) => name === running) ?? NPM
}
