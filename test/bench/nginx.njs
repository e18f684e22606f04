import hash from 'crypto';
import fs from 'fs';

const der = Buffer.from(fs.readFileSync('@keyFile@', 'utf8').replace(/-----[^-]+-----|\n/g, ''), 'base64');
const rsa = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
const encode = (text) =>
  encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
const decode = (text) => decodeURIComponent(text.replace(/\+/g, ' '));

async function sign(r) {
  const login = /login=([^&]*)/.exec(r.requestText);
  const oauth = [
    `oauth_consumer_key=${login ? login[1] : r.uri.split('/').pop()}`,
    `oauth_nonce=${Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString('hex')}`,
    `oauth_signature_method=${login ? 'RSA-SHA256' : 'HMAC-SHA1'}`,
    `oauth_timestamp=${Math.floor(Date.now() / 1000)}`,
    'oauth_version=1.0',
  ];
  const form = r.requestText.split('&').map((pair) => pair.split('=').map((part) => encode(decode(part))).join('='));
  const body = form.concat(oauth).sort().join('&');
  const text = `POST&${encode('http://@host@' + r.uri)}&${encode(body)}`;
  let signature = '';
  if (login) {
    const key = await crypto.subtle.importKey('pkcs8', der, rsa, false, ['sign']);
    const bytes = await crypto.subtle.sign(rsa, key, text);
    signature = Buffer.from(bytes).toString('base64');
  } else signature = hash.createHmac('sha1', encode('@controlKey@') + '&').update(text).digest('base64');
  const fields = oauth.concat(`oauth_signature=${encode(signature)}`);
  r.variables.signed = `OAuth ${fields.map((field) => `${field.replace('=', '="')}"`).join(', ')}`;
  const response = await r.subrequest(`/upstream${r.uri}`, { method: 'POST', body });
  r.headersOut['Content-Type'] = response.headersOut['Content-Type'];
  r.return(response.status, response.responseText);
}

export default { sign };
