import { didYouMean } from '../../config/did-you-mean.ts';

/** `unknown command "serv"; did you mean "serve"?` */
export function unknownCommand(name: string, known: Iterable<string>, what = 'command'): string {
  return `unknown ${what} "${name}"${didYouMean(name, known)}`;
}
